"""Command line `pippin`: one module per command.

Results go to standard output, messages to standard error. The exit code is 0 after success, 2 after wrong arguments or
invalid input (with a message of one sentence), and 130 after an interruption.
"""

import os
import sys
import warnings
from importlib import import_module
from typing import Annotated

import typer

from pippin._runtime.errors import InputError, MissingExtraError
from pippin.cli.field import field
from pippin.cli.options import an_option, command
from pippin.cli.outputs import echo
from pippin.cli.prepare import prepare
from pippin.cli.reproduce import reproduce

EXAMPLES = {
    "compare": "data.npz --scores 'ip,pip,pip per class' --out out",
    "sweep": "data.npz --score repip --values 0,0.01,0.1 --out out",
    "tune": "data.csv --prefer singletons --max-size 1.5 --out predictor.json",
    "toy": "--out out",
    "plan": "--alpha 0.1 --n 2000",
    "calibrate": "data.npz --score pip --per class --out predictor.json",
    "predict": "predictor.json new.csv --out sets.csv",
    "decide": "decider.json new.csv --out actions.csv",
    "evaluate": "predictor.json test.npz",
    "monitor": "predictor.json stream.csv --state state.json",
    "describe": "predictor.json",
    "export": "predictor.json --onnx head.onnx --input logits",
    "train": "windows --out probs.npz",
}
_IMPORT = "Import a Python module first, such as one that registers scores. May also follow the command."
app = typer.Typer(pretty_exceptions_enable=False)
for _name, _example in EXAMPLES.items():
    command(app, f"{_name} {_example}")(getattr(import_module(f"pippin.cli.{_name}"), _name))
app.add_typer(prepare, name="prepare")
app.add_typer(reproduce, name="reproduce")
app.add_typer(field, name="field")


@app.callback(invoke_without_command=True, epilog="Start with: pippin compare")
def pippin(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    modules: Annotated[list[str] | None, an_option(_IMPORT, "--import", metavar="MODULE")] = None,
) -> None:
    """Prediction sets that contain the true class with a chosen probability."""
    for module in modules or ():
        _import(module)
    if version:
        from pippin._runtime.version import __version__

        echo(f"pippin {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())  # noqa: T201 - with colors, and without names of the user


def _import(module: str) -> None:
    """Import the module that the user named with `--import`; the current folder is searched first."""
    sys.path.insert(0, os.getcwd())
    try:
        import_module(module)
    except ImportError as error:
        raise InputError(f"Cannot import {module} ({error})", "check its name and the current folder") from error
    finally:
        sys.path.remove(os.getcwd())


def _imports_first(arguments: list[str]) -> list[str]:
    """Move each `--import MODULE` before the name of the command, where the parser expects the options of `pippin`.

    >>> _imports_first(["toy", "--import", "mine", "--out", "x"])
    ['--import', 'mine', 'toy', '--out', 'x']
    """
    first: list[str] = []
    rest: list[str] = []
    previous = ""
    for word in arguments:
        imports = word.startswith("--import=") or "--import" in (word, previous)
        (first if imports else rest).append(word)
        previous = "" if previous == "--import" else word
    return first + rest


def main() -> None:
    """Run the command in `sys.argv`; on invalid input, print one sentence to standard error and exit with code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # names may hold characters that the terminal cannot encode
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", module=r"PIL\b")
        printed: set[str] = set()

        def show(message: Warning | str, *_: object, **__: object) -> None:
            words = " ".join(str(message).split())
            if words not in printed:
                printed.add(words)
                echo(f"pippin: warning: {words}", sys.stderr)

        warnings.showwarning = show
        sys.exit(_run())


def _run() -> int:
    try:
        code = app(_imports_first(sys.argv[1:]), standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reading process, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        echo(f"pippin: {' '.join(sentence.split())}", sys.stderr)
        return 2
    return int(code or 0)


def _sentence(error: Exception) -> str | None:
    """Return the error message to print; None for an exception that only a bug can raise."""
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return f"Cannot write to standard output ({error.strerror}): check the file or pipe that it goes to."
        return f"Cannot use {error.filename} ({error.strerror}): check the path."
    if isinstance(error, ValueError | OSError | MissingExtraError):
        return str(error)
    if isinstance(error, MemoryError):
        return "Not enough memory for these data: pass fewer rows at a time."
    if hasattr(error, "format_message"):  # raised by the argument parser
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "pippin"
        message = error.format_message().replace("Value error, ", "").rstrip(".")
        return f"{message}: see {path} --help."
    return None
