"""The registered model: files, serving, registry."""
