"""Calibration and evaluation of rows in parts, equal to those of all rows at once."""
