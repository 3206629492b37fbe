"""Comparison of methods on repeated random splits, tuning of scores, confidence intervals, and the data of reports."""
