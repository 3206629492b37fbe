"""Online prediction and monitoring: thresholds updated after each label, and sequential tests for change."""
