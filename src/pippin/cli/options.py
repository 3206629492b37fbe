"""Arguments that several commands share."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pippin._runtime.errors import InputError

if TYPE_CHECKING:
    from pippin.tables.columns import Layout


def an_argument(metavar: str, help_text: str) -> Any:
    """An argument whose default, if it has one, goes without saying."""
    return typer.Argument(metavar=metavar, help=help_text, show_default=False)


def an_option(help_text: str, *spelling: str, **more: Any) -> Any:
    """An option whose default, if it has one, goes without saying."""
    return typer.Option(*spelling, help=help_text, show_default=False, **more)


_DATA = ".npz, .csv, .csv.gz, .parquet or .npy with one row per object and one column per class, or - for stdin"

DataFile = Annotated[Path, an_argument("DATA", f"{_DATA}.")]
_MORE = f"{_DATA}; or a folder of tables, a pattern such as 'folder/*.parquet', or several"
DataFiles = Annotated[list[Path], an_argument("DATA", f"{_MORE}.")]
DataOrExample = Annotated[Path | None, an_argument("DATA", f"{_DATA}; without it, an embedded example.")]
DataFilesOrExample = Annotated[list[Path] | None, an_argument("DATA", f"{_MORE}; without it, an embedded example.")]
PredictorFile = Annotated[Path, an_argument("PREDICTOR", "What calibrate wrote.")]
PredictorOut = Annotated[Path, an_option("The predictor, .json.", metavar="FILE")]
LabelsFile = Annotated[Path | None, an_option("Labels in a .npy file, for data that hold none.")]
Alpha = Annotated[float, typer.Option(help="The share of errors allowed; 0.1 asks for 90 % coverage.")]
CalibrationFraction = Annotated[float, typer.Option(help="The share of rows that calibrates; the rest tests.")]
Splits = Annotated[int, typer.Option(help="How many times the rows are divided at random.")]
SplitSeed = Annotated[int, typer.Option(min=0, help="Makes the splits; the same seed gives the same results.")]
DrawSeed = Annotated[int | None, an_option("Makes a randomised score (aps, raps, saps) repeatable.", min=0)]
WeightsFile = Annotated[
    Path | None,
    an_option("Likelihood ratios of the rows, target to source, in a .npy file, for objects of another distribution."),
]
NonEmpty = Annotated[
    bool, typer.Option("--non-empty", help="Put the most probable class into sets that would be empty.")
]
UtilityFile = Annotated[
    Path | None,
    an_option(
        "What each action is worth if each class is the true one: .csv with a line per action and a column per "
        "class, or .toml with a table per action and the kinds of classes.",
        "--utility",
        metavar="FILE",
    ),
]
Fallback = Annotated[str | None, an_option("The action where a prediction set is empty, so that it has no worst case.")]
OutFolder = Annotated[Path, typer.Option(metavar="DIR", help="The folder for the results.")]


class Beside(NamedTuple):
    """What a predictor may be told beside the rows."""

    seed: DrawSeed = None
    weights: WeightsFile = None


class Worth(NamedTuple):
    """What actions are worth, and what is done where a set has no worst case."""

    utility: UtilityFile = None
    fallback: Fallback = None


def _said(help_text: str, *spelling: str, **more: Any) -> Any:
    return an_option(help_text, *spelling, rich_help_panel="What the columns are", **more)


def _names_or_indices(said: str | None) -> str | None:
    if said not in (None, "names", "indices"):
        raise InputError(f"Expected --labels-are to be names or indices, got {said!r}")
    return said


class Columns(NamedTuple):
    """What the columns of a table are."""

    label: Annotated[str | None, _said("The column of true classes, if it is not called label.")] = None
    id_: Annotated[str | None, _said("A column that names the rows; it comes back with the sets.", "--id")] = None
    classes: Annotated[str | None, _said("The columns of probabilities, between commas.")] = None
    prefix: Annotated[str | None, _said("What the columns of probabilities begin with, as in p_.")] = None
    logits: Annotated[bool, _said("Take a softmax of the columns first.", "--logits")] = False
    normalize: Annotated[bool, _said("Divide each row by its sum first.", "--normalize")] = False
    labels_are: Annotated[
        str | None,
        _said("names or indices, where whole numbers could be both.", metavar="TEXT", callback=_names_or_indices),
    ] = None

    @property
    def layout(self) -> "Layout":
        """The same, as tables are read."""
        from pippin.tables.columns import Layout

        names = None if self.classes is None else tuple(part.strip() for part in self.classes.split(","))
        said: Any = (self.label, self.id_, names, *self[3:])
        return Layout(*said)


def command(app: typer.Typer, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds a command by the name of its function, with an example below its help; the function stays what it is."""

    def added(function: Callable[..., None]) -> Callable[..., None]:
        app.command(epilog=f"Example: pippin {example}")(_with_fields(function))
        return function

    return added


def _with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Where a command has a named tuple among its arguments, the command line has the options that are its fields."""
    own = inspect.signature(command)
    groups = {name: one.annotation for name, one in own.parameters.items() if hasattr(one.annotation, "_fields")}
    asked: list[inspect.Parameter] = []
    for name, one in own.parameters.items():
        fields = groups[name].__annotations__ if name in groups else {name: one.annotation}
        defaults = groups[name]._field_defaults if name in groups else {name: one.default}
        asked += [one.replace(name=each, default=defaults[each], annotation=kind) for each, kind in fields.items()]

    @wraps(command)
    def called(**given: Any) -> None:
        made = {name: group(*(given.pop(each) for each in group._fields)) for name, group in groups.items()}
        command(**given, **made)

    called.__signature__ = own.replace(parameters=asked)  # type: ignore[attr-defined]  # a function may hold one
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in asked}
    return called
