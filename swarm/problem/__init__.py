"""Definition of a problem: data, search space, folds, scorer and hints."""
