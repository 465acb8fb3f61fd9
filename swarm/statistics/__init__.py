"""What is computed from the training rows before a search starts."""
