"""Decisions from probabilities or prediction sets: guaranteed utilities, selective classification, risk control."""
