"""Champion and challenger: lock, decision, publication."""
