"""The command line: one file per command; each parses, calls one function, and writes.

Results go to standard output, everything else to standard error. Exit codes: 0 done,
2 wrong use or bad input (one sentence), 130 interrupted.
"""

import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

from pippin._runtime.errors import InputError, MissingExtraError
from pippin._runtime.showing import visible
from pippin.cli.calibrate import calibrate
from pippin.cli.compare import compare
from pippin.cli.decide import decide
from pippin.cli.evaluate import evaluate
from pippin.cli.export import export
from pippin.cli.field import field
from pippin.cli.learn import learn
from pippin.cli.monitor import monitor
from pippin.cli.options import an_option, command
from pippin.cli.plan import plan
from pippin.cli.predict import predict
from pippin.cli.prepare import prepare
from pippin.cli.reproduce import reproduce
from pippin.cli.sweep import sweep
from pippin.cli.toy import toy
from pippin.cli.train import train
from pippin.cli.tune import tune

app = typer.Typer(pretty_exceptions_enable=False)
EXAMPLES: dict[Callable[..., None], str] = {
    compare: "compare data.npz --scores 'ip,pip,pip per class' --out out",
    sweep: "sweep data.npz --score repip --values 0,0.01,0.1 --out out",
    tune: "tune data.csv --prefer singletons --max-size 1.5 --out predictor.json",
    toy: "toy",
    plan: "plan --alpha 0.1 --n 2000",
    calibrate: "calibrate data.npz --score pip --per class --out predictor.json",
    learn: "learn data.npz --score socop --alpha 0.1 --out predictor.json",
    predict: "predict predictor.json new.csv --out sets.csv",
    decide: "decide decider.json new.csv --out actions.csv",
    evaluate: "evaluate predictor.json test.npz",
    monitor: "monitor predictor.json stream.csv --state state.json",
    export: "export predictor.json --onnx head.onnx --input logits",
    train: "train windows --out probs.npz",
}
for _function, _example in EXAMPLES.items():
    command(app, _example)(_function)
app.add_typer(prepare, name="prepare")
app.add_typer(reproduce, name="reproduce")
app.add_typer(field, name="field")


@app.callback(invoke_without_command=True, epilog="Start with: pippin compare")
def pippin(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    modules: Annotated[
        list[str] | None,
        an_option(
            "Import this module first, such as one that registers scores of your own; anywhere in the line.",
            "--import",
            metavar="MODULE",
        ),
    ] = None,
) -> None:
    """Prediction sets that contain the true class with a chosen probability."""
    for module in modules or ():
        _import(module)
    if version:
        from pippin._runtime.version import __version__

        print(f"pippin {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def _import(module: str) -> None:
    """Imports a module of the user's, from the current folder too."""
    sys.path.insert(0, os.getcwd())
    try:
        import_module(module)
    except ImportError as error:
        raise InputError(f"Cannot import {module} ({error})", "check its name, and where it is looked for") from error
    finally:
        sys.path.remove(os.getcwd())


def _imports_first(arguments: list[str]) -> list[str]:
    """The arguments with each `--import MODULE` before the command, where the command line wants them.

    >>> _imports_first(["toy", "--import", "mine", "--out", "x"])
    ['--import', 'mine', 'toy', '--out', 'x']
    """
    first: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--import":
            first += [word, *(following for following in [next(words, None)] if following is not None)]
        else:
            (first if word.startswith("--import=") else rest).append(word)
    return first + rest


def main() -> None:
    """Runs a command; wrong input is one sentence on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot show is no reason to stop
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _told_once()
        sys.exit(_run())


def _run() -> int:
    try:
        code = app(_imports_first(sys.argv[1:]), standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        print(f"pippin: {visible(' '.join(sentence.split()))}", file=sys.stderr)
        return 2
    return int(code or 0)


def _sentence(error: Exception) -> str | None:
    """What to tell the user; None for an error that is ours."""
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return f"Cannot write the results ({error.strerror}): check where standard output goes."
        return f"Cannot use {error.filename} ({error.strerror}): check the path."
    if isinstance(error, ValueError | OSError | MissingExtraError):
        return str(error)
    if isinstance(error, MemoryError):
        return "Not enough memory for these data: pass fewer rows at once."
    if hasattr(error, "format_message"):  # wrong use, found while the arguments were read
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "pippin"
        return f"{error.format_message().rstrip('.')}: see {path} --help."
    return None


def _told_once() -> Callable[..., None]:
    """Shows a warning as one line, and the same words once."""
    told: set[str] = set()

    def show(message: Warning | str, *_: object) -> None:
        words = visible(" ".join(str(message).split()))
        if words not in told:
            told.add(words)
            print(f"pippin: warning: {words}", file=sys.stderr)

    return show
