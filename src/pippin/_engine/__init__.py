"""Blocks of rows in, scores and sets out: in NumPy or compiled, with the same bits."""
