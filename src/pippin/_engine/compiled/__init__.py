"""The engine in compiled loops; importing one of these modules imports numba."""
