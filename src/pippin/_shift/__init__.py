"""Weights and tests for data of another distribution than the calibration rows."""
