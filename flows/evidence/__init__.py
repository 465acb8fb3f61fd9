"""Studies that search the source documents' claims again, and write them down."""
