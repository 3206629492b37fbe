"""Scores, sets, p-values and decisions of blocks of rows, by NumPy or compiled with numba, with equal results."""
