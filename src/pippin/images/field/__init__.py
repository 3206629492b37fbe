"""From a new photograph to sets, decisions and a picture of them. Needs the extra `vision`, or `field` for ONNX."""
