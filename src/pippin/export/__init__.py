"""Export of predictors and deciders as ONNX graphs and C headers."""
