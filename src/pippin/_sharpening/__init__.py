"""Better probabilities before they are scored: learnt on labelled rows that do not calibrate."""
