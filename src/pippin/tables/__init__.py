"""Reading of probabilities and labels from files, and writing of results as tables."""
