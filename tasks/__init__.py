"""Steps of the flows: thin wrappers around the library, and all that talks to MLflow."""
