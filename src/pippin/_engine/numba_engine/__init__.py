"""Compiled engine: serial numba loops that release the GIL. Results equal the NumPy engine's to the last bit."""
