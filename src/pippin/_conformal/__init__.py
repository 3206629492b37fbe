"""Conformal predictors: calibration, prediction sets, p-values, evaluation, and files."""
