"""Arguments that several commands share, and how their texts are read."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin._runtime.errors import InputError

if TYPE_CHECKING:
    from pippin._compare.methods import Method
    from pippin._predictors.protocol import ConformalPredictor
    from pippin.tables.layout import Layout
    from pippin.tables.reading import Data
    from pippin.tables.scanning import Scan

_DATA = ".npz, .csv, .csv.gz, .parquet or .npy with one row per object and one column per class, or - for stdin"
TABLES = "What the columns are"

DataFile = Annotated[Path, typer.Argument(metavar="DATA", help=f"{_DATA}.", show_default=False)]
_MORE = f"{_DATA}; or a folder of tables, a pattern such as 'folder/*.parquet', or several"
DataFiles = Annotated[list[Path], typer.Argument(metavar="DATA", help=f"{_MORE}.", show_default=False)]
DataOrExample = Annotated[
    Path | None,
    typer.Argument(metavar="DATA", help=f"{_DATA}; without it, an embedded example.", show_default=False),
]
DataFilesOrExample = Annotated[
    list[Path] | None,
    typer.Argument(metavar="DATA", help=f"{_MORE}; without it, an embedded example.", show_default=False),
]
PredictorFile = Annotated[Path, typer.Argument(metavar="PREDICTOR", help="What calibrate wrote.", show_default=False)]
LabelsFile = Annotated[
    Path | None, typer.Option(help="Labels in a .npy file, for data that hold none.", show_default=False)
]
Alpha = Annotated[float, typer.Option(help="The share of errors allowed; 0.1 asks for 90 % coverage.")]
CalibrationFraction = Annotated[float, typer.Option(help="The share of rows that calibrates; the rest tests.")]
Splits = Annotated[int, typer.Option(help="How many times the rows are divided at random.")]
SplitSeed = Annotated[int, typer.Option(min=0, help="Makes the splits; the same seed gives the same results.")]
DrawSeed = Annotated[
    int | None,
    typer.Option(min=0, help="Makes a randomised score (aps, raps, saps) repeatable.", show_default=False),
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        help="Likelihood ratios of the rows, target to source, in a .npy file, for objects of another distribution.",
        show_default=False,
    ),
]
NonEmpty = Annotated[
    bool, typer.Option("--non-empty", help="Put the most probable class into sets that would be empty.")
]
UtilityFile = Annotated[
    Path | None,
    typer.Option(
        "--utility",
        metavar="FILE",
        help="What each action is worth if each class is the true one: .csv with a line per action and a column per "
        "class, or .toml with a table per action and the kinds of classes.",
        show_default=False,
    ),
]
Fallback = Annotated[
    str | None,
    typer.Option(help="The action where a prediction set is empty, so that it has no worst case.", show_default=False),
]
OutFolder = Annotated[Path, typer.Option(metavar="DIR", help="The folder for the results.")]


def takes_table(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say what the columns of a table are; the command gets them as its `layout`."""
    own = inspect.signature(command)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (default, kind) in _LAYOUT.items()
    ]

    @wraps(command)
    def called(*args: Any, **given: Any) -> None:
        said = {name: given.pop(name, default) for name, (default, _) in _LAYOUT.items()}
        command(*args, **given, layout=_layout(said))

    kept = [parameter for name, parameter in own.parameters.items() if name != "layout"]
    called.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]  # a function may hold one
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *added)}
    return called


def _layout(given: dict[str, Any]) -> "Layout":
    from pippin.tables.layout import Layout

    if given["labels_are"] not in (None, "names", "indices"):
        raise InputError(f"Expected --labels-are to be names or indices, got {given['labels_are']!r}")
    names = None if given["classes"] is None else tuple(part.strip() for part in given["classes"].split(","))
    return Layout(
        given["label"],
        given["id_"],
        names,
        given["prefix"],
        given["logits"],
        given["normalize"],
        given["labels_are"],
    )


def _said(help_text: str, *spelling: str, **more: Any) -> Any:
    return typer.Option(*spelling, help=help_text, show_default=False, rich_help_panel=TABLES, **more)


_LAYOUT: dict[str, tuple[Any, Any]] = {
    "label": (None, Annotated[str | None, _said("The column of true classes, if it is not called label.")]),
    "id_": (None, Annotated[str | None, _said("A column that names the rows; it comes back with the sets.", "--id")]),
    "classes": (None, Annotated[str | None, _said("The columns of probabilities, between commas.")]),
    "prefix": (None, Annotated[str | None, _said("What the columns of probabilities begin with, as in p_.")]),
    "logits": (False, Annotated[bool, _said("Take a softmax of the columns first.", "--logits")]),
    "normalize": (False, Annotated[bool, _said("Divide each row by its sum first.", "--normalize")]),
    "labels_are": (
        None,
        Annotated[str | None, _said("names or indices, where whole numbers could be both.", metavar="TEXT")],
    ),
}


def read_or_example(path: Path | None, labels: Path | None, layout: "Layout | None" = None) -> "Data":
    """The file's data; the embedded example without a file."""
    from pippin.tables.layout import Layout
    from pippin.tables.reading import example_data, read_data
    from pippin.tables.scanning import scan_tables
    from pippin.tables.sources import is_scanned

    said = layout or Layout()
    if path is not None:
        small = path.is_file() and path.stat().st_size <= SMALL
        if labels is None and not small and path.name != "-" and is_scanned([path]):
            return scan_tables([path], said).gathered()
        return read_data(path, labels, said)
    if labels is not None:
        raise InputError(f"Expected data for the labels of {labels}, got none", "name the file of probabilities first")
    if said != Layout():
        raise InputError("Expected a table whose columns these options describe, got none", "name the file first")
    return example_data()


SMALL = 1 << 25  # bytes of one table that is read at once


def read_or_scan(paths: list[Path], labels: Path | None, layout: "Layout | None") -> "Data | Scan":
    """Data at hand, or tables that are read in batches: several, or a large one."""
    from pippin.tables.layout import Layout
    from pippin.tables.scanning import scan_tables
    from pippin.tables.sources import is_scanned

    one_small = len(paths) == 1 and paths[0].is_file() and paths[0].stat().st_size <= SMALL
    if labels is not None or one_small or not is_scanned(paths):
        if len(paths) > 1:
            raise InputError(f"Expected one file of data beside --labels, got {len(paths)}", "join them")
        return read_or_example(paths[0], labels, layout)
    return scan_tables(paths, layout or Layout())


def at_once(given: "Data | Scan") -> "Data":
    """All rows, for what cannot do with less."""
    from pippin.tables.reading import Data

    return given if isinstance(given, Data) else given.gathered()


def read_scores(text: str) -> "tuple[Method, ...]":
    """Scores and methods from a list such as `raps(lam=0.1, k_reg=2),pip per class`; `paper` and `all` are several.

    >>> read_scores("raps(lam=0.1, k_reg=2),pip per class")
    (raps(lam=0.1, k_reg=2), pip per class)
    """
    from pippin._compare.methods import parse_method, parse_methods
    from pippin._theory.formula import FAMILIES
    from pippin._theory.scores import PAPER_SCORES, make_score

    every = tuple(make_score(name, {}) for name in FAMILIES if name != "linear")
    several = {"paper": PAPER_SCORES, "all": every}
    return parse_methods([score for part in _split(text) for score in several.get(part) or (parse_method(part),)])


def asked_of(
    predictor: "ConformalPredictor", data: "Data", weights: Path | None, seed: int | None, non_empty: bool
) -> dict[str, Any]:
    """What this predictor takes beside the rows: groups, features, weights, a seed.

    Raises:
        InputError: the predictor needs more than a file of rows, or weights that it cannot use.
    """
    from pippin.tables.reading import read_features, read_weights

    kind, takes = type(predictor).__name__, predictor.takes
    if "folds" in takes:
        raise InputError(
            f"Expected a predictor that needs one matrix of probabilities, got a {kind}", "use it in Python"
        )
    asked: dict[str, Any] = {"nonempty": non_empty}
    if "seed" in takes:
        asked["seed"] = seed
    if "groups" in takes:
        asked["groups"] = data.groups
    if "features" in takes:
        asked["features"] = read_features(data)
    if "weights" in takes:
        if weights is None:
            raise InputError("Expected the weights of the rows, got none", "pass --weights weights.npy")
        asked["weights"] = read_weights(weights)
    elif weights is not None:
        raise InputError(f"A {kind} takes no weights", "leave --weights out, or calibrate with --weights")
    return asked


def read_values(text: str) -> tuple[float, ...]:
    """Numbers from a list such as `0,0.01,1`; whole ones stay whole.

    >>> read_values("0, 0.01,1")
    (0, 0.01, 1)
    """
    try:
        return tuple(int(part) if part.strip().lstrip("+-").isdigit() else float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"Expected --values to be numbers between commas, got {text!r}", "write for example 0,0.01,0.1"
        ) from error


def _split(text: str) -> list[str]:
    """The parts between those commas that stand outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
