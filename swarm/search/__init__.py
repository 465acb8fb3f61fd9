"""Running a search, from its first epoch to its result."""
