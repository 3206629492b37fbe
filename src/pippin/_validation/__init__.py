"""Validation of arguments: probabilities, labels, groups, class names and row indices."""
