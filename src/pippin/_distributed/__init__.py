"""Rows that are divided: the same predictors and measures from parts that never meet."""
