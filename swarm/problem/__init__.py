"""What is searched: the data, the space of subsets, folds, the scorer, hints."""
