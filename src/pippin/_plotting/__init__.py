"""Matplotlib plots for `.plot()` and for the report."""
