"""Decisions from probabilities or prediction sets: utilities, certificates, selective classification, risk control."""
