"""From calibration to sets and their measures."""
