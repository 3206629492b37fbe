"""Objects that come one after another: evidence of change, and thresholds that follow it."""
