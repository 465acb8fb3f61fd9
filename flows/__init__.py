"""Flows that chain the tasks, and the command line."""
