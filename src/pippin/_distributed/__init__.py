"""Calibration and evaluation on rows that are processed in parts, with the results of all rows at once."""
