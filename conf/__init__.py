"""Configuration: the schema, how a file becomes one, and the files that ship."""
