"""A Python in which torch and what comes with it are not installed: its packages are all others."""

import os
import sys
import sysconfig
from pathlib import Path

LEFT_OUT = ("torch", "transformers", "safetensors", "huggingface_hub", "onnx", "onnxscript", "onnx_ir", "functorch")


def bare_python(folder):
    """(command, environment) of an interpreter that finds every package but those left out."""
    packages = folder / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        name = path.name.split(".")[0].split("-")[0].lower()
        if name not in LEFT_OUT and not name.startswith("torch"):
            (packages / path.name).symlink_to(path)
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{packages}"}
    return [sys.executable, "-S"], environment
