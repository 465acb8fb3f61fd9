"""Search algorithms, one file each, and the operators that they are composed of."""
