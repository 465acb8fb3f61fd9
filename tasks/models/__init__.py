"""The registered model: files, card, registry."""
