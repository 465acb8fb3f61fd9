"""What outlasts a process: evaluations in an archive, and the chosen features."""
