"""Formulas: scores and their names, significance levels, coverage distributions, martingales, decision policies."""
