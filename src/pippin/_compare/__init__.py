"""Comparison of methods on repeated random splits, tuning, evidence and the data of reports."""
