"""The fast engine: serial numba loops without the GIL. Results equal the NumPy engine's to the last bit."""
