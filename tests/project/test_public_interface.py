"""The public interface: exported names, layers, signatures and documented arguments."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pippin
import pippin.sklearn
import pippin.testing
import pippin.torch
from pippin.export.c_header import c_header
from pippin.export.onnx import appended_model, head_model

ROOT = Path(__file__).parents[2]


def test_every_package_has_a_layer():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    assert contract["exhaustive"] is True


NAMESPACES = ("decisions", "distributed", "metrics", "models", "online", "scores", "shift")


def test_exported_names():
    """There are at most 30 names at the top and 25 in a namespace; `dir(pippin)` shows only public names."""
    public = {name for name in dir(pippin) if not name.startswith("_")}
    modules = {"cli", "dask", "export", "images", "sklearn", "tables", "testing", "torch", *NAMESPACES}
    assert set(pippin.__all__) <= public <= set(pippin.__all__) | modules
    for name in NAMESPACES:
        module = getattr(pippin, name)
        assert len(module.__all__) <= 25
        assert all(hasattr(module, exported) for exported in module.__all__)


def test_subpackages_are_imported_at_first_use():
    code = (
        "import sys, pippin; assert 'torch' not in sys.modules; pippin.torch.ConformalHead;"
        "assert 'torch' in sys.modules; pippin.testing.check_score; pippin.nothing"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("AttributeError: module 'pippin' has no attribute 'nothing'")


def public_functions():
    namespaces = [getattr(pippin, name) for name in NAMESPACES]
    for module in (pippin, *namespaces, pippin.sklearn, pippin.torch, pippin.testing):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found):
                yield f"{module.__name__}.{name}", found
            elif inspect.isclass(found):
                ours = [base for base in found.__mro__ if base.__module__.startswith("pippin")]
                own = {key: value for base in reversed(ours) for key, value in vars(base).items()}
                methods = {key: value for key, value in own.items() if inspect.isfunction(value)}
                yield from ((f"{name}.{key}", value) for key, value in methods.items() if not key.startswith("_"))
    for function in (head_model, appended_model, c_header):
        yield function.__name__, function


PUBLIC = dict(public_functions())


FIRST = ("model_or_logits", "loader_or_labels", "probs", "fold_probs", "sets", "labels", "weights", "folds", "utility")
FIRST = (*FIRST, "loss", "predictor", "predictors", "new_probs")
THEN = ("score", "scores", "alpha", "level")
SHARED = ("groups", "weights", "features", "seed", "smoothed", "nonempty", "from_logits")


@pytest.mark.parametrize(
    "name", [name for name in PUBLIC if set(FIRST[:4]) & {*inspect.signature(PUBLIC[name]).parameters}]
)
def test_signatures_are_consistent(name):
    """Data first, then score and alpha, all others by keyword; shared keywords in one order."""
    parameters = inspect.signature(PUBLIC[name]).parameters
    keywords = [key for key, value in parameters.items() if value.kind is inspect.Parameter.KEYWORD_ONLY]
    others = [key for key in parameters if key not in (*keywords, "self", "args", "kwargs", "options")]
    data = [key for key in others if key in FIRST]
    assert others == [*data, *(key for key in THEN if key in others)]
    assert [key for key in keywords if key in SHARED] == [key for key in SHARED if key in keywords]


def types_of(tree):
    """Yield the names of classes and type aliases of a module."""
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id.lstrip("_")
            if name[:1].isupper() and not name.isupper():
                yield node.targets[0].id


def test_no_type_name_is_defined_in_two_files():
    found = {}
    for path in (ROOT / "src").rglob("*.py"):
        for name in set(types_of(ast.parse(path.read_text()))):
            found.setdefault(name, []).append(path.name)
    assert len(found) > 200
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_error_messages_are_not_rewritten():
    """No error message is made by replacing parts of another one."""
    for path in (ROOT / "src").rglob("*.py"):
        assert not re.search(r"str\((error|missing)\)\.(replace|removeprefix)", path.read_text()), path
