"""From a mask to its cost."""
