"""Measures of prediction sets, each a function of sets (and labels) that returns a number."""

from pippin._conformal.metrics import coverage, empty_rate, mean_size, singleton_rate

__all__ = ["coverage", "empty_rate", "mean_size", "singleton_rate"]
