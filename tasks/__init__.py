"""Prefect tasks: thin wrappers around the library, data sources, and all code that uses MLflow."""
