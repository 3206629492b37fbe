"""Tests of reports and figures: a package, so that they share one browser."""
