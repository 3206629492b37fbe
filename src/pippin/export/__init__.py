"""Predictors that leave Python behind: ONNX graphs and C headers."""
