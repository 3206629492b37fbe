"""What the words of a command line stand for: data, scores, numbers, and what a predictor is told beside the rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pippin._runtime.errors import InputError
from pippin.cli.options import Beside

if TYPE_CHECKING:
    from pippin._compare.methods import Method
    from pippin._conformal.predictor import ConformalPredictor
    from pippin.tables.columns import Layout
    from pippin.tables.reading import Data
    from pippin.tables.scanning import Scan

SMALL = 1 << 25  # bytes of one table that is read at once


def read_or_example(path: Path | None, labels: Path | None, layout: "Layout | None" = None) -> "Data":
    """The file's data; the embedded example without a file."""
    from pippin.tables.columns import Layout
    from pippin.tables.reading import example_data, read_data
    from pippin.tables.scanning import is_scanned, scan_tables

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


def read_or_scan(paths: list[Path], labels: Path | None, layout: "Layout | None") -> "Data | Scan":
    """Data at hand, or tables that are read in batches: several, or a large one."""
    from pippin.tables.columns import Layout
    from pippin.tables.scanning import is_scanned, scan_tables

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


def asked_of(predictor: "ConformalPredictor", data: "Data", beside: Beside, non_empty: bool = False) -> dict[str, Any]:
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
        asked["seed"] = beside.seed
    if "groups" in takes:
        asked["groups"] = data.groups
    if "features" in takes:
        asked["features"] = read_features(data)
    if "weights" in takes:
        if beside.weights is None:
            raise InputError("Expected the weights of the rows, got none", "pass --weights weights.npy")
        asked["weights"] = read_weights(beside.weights)
    elif beside.weights is not None:
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
