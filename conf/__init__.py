"""Configuration: the schema, the loader, and the shipped files."""
