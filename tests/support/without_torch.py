"""Python environment with all installed packages except torch and its companions."""

import os
import sys
import sysconfig
from pathlib import Path

LEFT_OUT = ("torch", "transformers", "safetensors", "huggingface_hub", "onnx", "onnxscript", "onnx_ir", "functorch")


def bare_python(folder):
    """Return command and environment of an interpreter that finds all packages except the excluded ones."""
    packages = folder / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        name = path.name.split(".")[0].split("-")[0].lower()
        if name not in LEFT_OUT and not name.startswith("torch"):
            (packages / path.name).symlink_to(path)
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{packages}"}
    return [sys.executable, "-S"], environment
