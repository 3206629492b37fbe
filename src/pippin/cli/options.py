"""Arguments and options that several commands share."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from pippin.tables.columns import Layout


def an_argument(metavar: str, help_text: str) -> Any:
    """Declare a positional argument of a command; the help does not show its default."""
    return typer.Argument(metavar=metavar, help=help_text, show_default=False)


def an_option(help_text: str, *spelling: str, **more: Any) -> Any:
    """Declare an option of a command; the help does not show its default."""
    return typer.Option(*spelling, help=help_text, show_default=False, **more)


_DATA = (
    "Probabilities, one row per object and one column per class: .npz, .csv, .csv.gz, .parquet or .npy, - for standard "
    "input, a folder of tables, a pattern such as 'folder/*.parquet', or several files"
)
_ALSO = "Probabilities of the same rows by a further model of a stack, with classes like DATA; may be repeated."
_FORMULAS = "Write names that begin with =, +, - or @ into .csv without an apostrophe before them."
_UTILITY = (
    "The utility of each action for each true class: .csv with a row per action and a column per class, or .toml "
    "with a table per action and the kind of each class."
)
_SCHEDULER = "The Dask scheduler that reads and predicts, such as tcp://host:8786; local starts one on this machine."
_WEIGHTS = "Likelihood ratio (target to source distribution) of each row under covariate shift, in a .npy file."
_CONFIDENCE = "Coverage of at least 1 − alpha with this probability over calibration sets; if not given, on average."
_BY = "The person or system responsible, for the provenance in the file."

DataFiles = Annotated[list[Path], an_argument("DATA", f"{_DATA}.")]
DataFilesOrExample = Annotated[list[Path] | None, an_argument("DATA", f"{_DATA}. Without DATA, an embedded example.")]
PredictorFile = Annotated[Path, an_argument("PREDICTOR", "The file that calibrate wrote.")]
PredictorOut = Annotated[Path, an_option("The predictor file to write, .json.", metavar="FILE")]
OutFolder = Annotated[Path, typer.Option(metavar="DIR", help="The folder for the results.")]
LabelsFile = Annotated[Path | None, an_option("The labels in a .npy file, if DATA has none.")]
By = Annotated[str, an_option(_BY, envvar="PIPPIN_BY", metavar="NAME")]
Alpha = Annotated[float, typer.Option(help="The significance level (miscoverage); 0.1 requests 90% coverage.")]
Confidence = Annotated[float | None, an_option(_CONFIDENCE)]
CalibrationFraction = Annotated[float, typer.Option(help="The share of rows for calibration; the rest is for testing.")]
Splits = Annotated[int, typer.Option(help="The number of random splits.")]
SplitSeed = Annotated[int, typer.Option(min=0, help="The seed of the random splits.")]
DrawSeed = Annotated[int | None, an_option("The seed of a randomized score (aps, raps, saps).", min=0)]
WeightsFile = Annotated[Path | None, an_option(_WEIGHTS)]
NonEmpty = Annotated[bool, typer.Option("--non-empty", help="Put the most probable class into empty sets.")]
Formulas = Annotated[bool, typer.Option("--formulas", help=_FORMULAS)]
AlsoFiles = Annotated[list[Path] | None, an_option(_ALSO, "--also", metavar="FILE")]
UtilityFile = Annotated[Path | None, an_option(_UTILITY, "--utility", metavar="FILE")]
Scheduler = Annotated[str | None, an_option(_SCHEDULER, metavar="ADDRESS")]


class RowInputs(NamedTuple):
    """Options for the inputs that some predictors take in addition to probabilities."""

    seed: DrawSeed = None
    weights: WeightsFile = None


class UtilityOptions(NamedTuple):
    """Options for decisions: the utility of each action, and the action for an empty prediction set."""

    utility: UtilityFile = None
    fallback: Annotated[str | None, an_option("The action for an empty prediction set.")] = None


class SplitOptions(NamedTuple):
    """Options of random splits into calibration and test rows."""

    alpha: Alpha = 0.1
    calibration_fraction: CalibrationFraction = 0.45
    seed: SplitSeed = 0


def _of_columns(help_text: str, *spelling: str, **more: Any) -> Any:
    return an_option(help_text, *spelling, rich_help_panel="Columns of a table", **more)


class ColumnOptions(NamedTuple):
    """Options for the roles of a table's columns: class probabilities, label, group and row ids."""

    label: Annotated[str | None, _of_columns("The column of true classes; if not given, label.")] = None
    id_: Annotated[
        list[str] | None,
        _of_columns("A column of row ids, copied to the output; may be repeated.", "--id", metavar="<str>"),
    ] = None
    classes: Annotated[
        str | None,
        _of_columns("The columns of probabilities, separated by commas; if not given, neighbors that sum to 1."),
    ] = None
    prefix: Annotated[str | None, _of_columns("The prefix of the columns of probabilities, such as p_.")] = None
    logits: Annotated[bool, _of_columns("The columns hold logits: apply a softmax.", "--logits")] = False
    normalize: Annotated[bool, _of_columns("Divide each row by its sum.", "--normalize")] = False
    labels_are: Annotated[
        Literal["names", "indices"] | None, _of_columns("Meaning of integer labels: class names or class indices.")
    ] = None
    group: Annotated[str | None, _of_columns("The column of groups; if not given, group.")] = None
    ignore: Annotated[
        list[str] | None, _of_columns("A column to leave out; repeatable.", "--ignore", metavar="<str>")
    ] = None

    @property
    def layout(self) -> Layout:
        """Column roles as a `Layout`, with which tables are read."""
        names = None if self.classes is None else tuple(part.strip() for part in self.classes.split(","))
        return Layout(self.label, tuple(self.id_ or ()), names, *self[3:8], tuple(self.ignore or ()))


def command(app: typer.Typer, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that registers a function as a command with its name, and shows an example below the help."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        app.command(epilog=f"Example: pippin {example}")(_with_fields(function))
        return function

    return add


def _with_fields(function: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that each parameter whose type is a named tuple becomes one option per field of the tuple."""
    signature = inspect.signature(function)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, each in signature.parameters.items():
        if not hasattr(each.annotation, "_fields"):
            parameters.append(each)
            continue
        groups[name] = group = each.annotation
        for field, kind in group.__annotations__.items():
            parameters.append(each.replace(name=field, default=group._field_defaults[field], annotation=kind))

    @wraps(function)
    def call(**given: Any) -> None:
        grouped = {name: group(*(given.pop(field) for field in group._fields)) for name, group in groups.items()}
        function(**given, **grouped)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer inspects it
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
