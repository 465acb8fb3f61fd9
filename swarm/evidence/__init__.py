"""Evidence: what the source documents claim, searched again, as tables and pages."""
