"""Export of a predictor to an ONNX graph, which gives the same sets without pippin."""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

import pippin
from pippin.export.onnx import head_model

data = pippin.load_example()
predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip", classes=data.classes)
file = Path(tempfile.mkdtemp()) / "head.onnx"
file.write_bytes(head_model(predictor, "logits").SerializeToString())
logits = np.log(data.probs[2000:2005])

for name in [name for name in sys.modules if name.split(".")[0] == "pippin"]:
    del sys.modules[name]  # unload pippin

session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
names = json.loads(session.get_modelmeta().custom_metadata_map["pippin.classes"])
sizes, classes, mask = session.run(None, {"logits": logits})
for size, members in zip(sizes, classes, strict=True):
    print(size, [names[k] for k in members[:size]])
