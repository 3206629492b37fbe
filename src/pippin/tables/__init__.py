"""Input tables and arrays from files, and output tables."""
