"""Recalibration of probabilities before scoring, fitted on labeled rows that are not used for calibration."""
