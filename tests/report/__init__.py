"""Tests of what is shown: a package, whose tests share one browser."""
