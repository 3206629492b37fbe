"""Docstrings: every example is collected by pytest, results are described, and the words are those of the field."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

from support.public_names import FUNCTIONS, section

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pippin"
FILES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
TEXT = (".py", ".j2", ".in", ".js", ".css", ".csv")
FIRST_WORDS = re.compile(r"(What|Whether|How|The same|Where|Who|Whoever)\b")
WORDS = re.compile(r"\b(told|nobody|whoever|somebody|beside)\b", re.IGNORECASE)


def docstrings(tree, name):
    """Yield the dotted names of a module and of its classes and functions, each with its docstring."""
    yield name, ast.get_docstring(tree) or ""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from docstrings(node, f"{name}.{node.name}")


def documented():
    """Yield the file, dotted name and docstring of every object of the package."""
    for path, tree in FILES.items():
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for name, text in docstrings(tree, module):
            yield path, name, text


def test_every_example_is_collected():
    """pytest skips examples of objects that it does not recognize, such as some wrapped functions and properties."""
    options = ["-o", "addopts=", "--doctest-modules", "--collect-only", "-q", str(SOURCE)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    collected = {line.partition("::")[2] for line in done.stdout.splitlines()}
    examples = [name for _, name, text in documented() if ">>>" in text]
    assert len(examples) > 200
    assert sorted(set(examples) - collected) == []


def test_arguments_of_public_functions_are_described():
    """Args of a public docstring describes each argument by name, and no others."""
    assert len(FUNCTIONS) > 200
    missing, unknown = [], []
    for name, (function, text) in FUNCTIONS.items():
        given, described = inspect.signature(function).parameters, section(text, "Args")
        missing += [f"{name}({key})" for key in given if key not in ("self", "cls", "args", "kwargs", *described)]
        unknown += [f"{name}({key})" for key in described if key not in given]
    assert (missing, unknown) == ([], [])


def test_results_of_public_functions_are_described():
    """Public docstrings have Returns, unless the function returns None."""
    missing = []
    for name, (function, text) in FUNCTIONS.items():
        result = inspect.signature(function).return_annotation
        returns = result not in (None, "None", inspect.Signature.empty) and function.__name__ != "__init__"
        if returns and not re.search(r"^(Returns|Yields):", text or "", re.MULTILINE):
            missing.append(name)
    assert missing == []


def test_docstrings_begin_with_verbs_or_nouns():
    assert [name for _, name, text in documented() if FIRST_WORDS.match(text)] == []


def test_words_that_are_not_used():
    """Code is not spoken of as a person, and arguments are passed with others, not beside them."""
    found = []
    for path in (path for path in SOURCE.rglob("*") if path.suffix in TEXT):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found += [f"{path.relative_to(SOURCE)}:{number} {word}" for word in WORDS.findall(line)]
    assert found == []
