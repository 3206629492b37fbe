"""Recalibration of probabilities before scoring, fitted on labeled rows that do not calibrate."""
