"""Reading of command line arguments: data files, lists of scores and numbers, and the other inputs of a predictor."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pippin
from pippin._compare.methods import Method, parse_method, parse_methods
from pippin._runtime.errors import InputError, need
from pippin._theory.formula import FAMILIES
from pippin._theory.scores import PAPER_SCORES, make_score
from pippin._validation.batched import Batch, watched
from pippin._validation.labels import rows_of_models
from pippin.cli.options import RowInputs
from pippin.tables.columns import Layout
from pippin.tables.formats import read_column, read_member
from pippin.tables.reading import Data, example_data, naming, read_data, read_features
from pippin.tables.scanning import Scan, is_scanned, scan_tables

SMALL = 1 << 25  # largest table in bytes that is read into memory, not in batches


def read(paths: list[Path] | None, labels: Path | None, layout: Layout, scheduler: str | None = None) -> Data | Scan:
    """Read a small file into memory; return a Scan, which reads batches on demand, for a large table or several tables.

    Without a path, return the embedded example.
    """
    if not paths:
        if labels is not None:
            raise InputError(f"Expected data for the labels of {labels}, got none", "name the probabilities first")
        if layout != Layout():
            raise InputError("Expected a table whose columns these options describe, got none", "name the file first")
        return example_data()
    small = len(paths) == 1 and paths[0].is_file() and paths[0].stat().st_size <= SMALL
    if scheduler is not None or (labels is None and not small and is_scanned(paths)):
        return scan_tables(paths, layout)
    if len(paths) > 1:
        raise InputError(f"Expected one file of data with --labels, got {len(paths)}", "join them")
    return read_data(paths[0], labels, layout)


def layout_for(layout: Layout, predictor: Any) -> Layout:
    """Return a layout with the class names of the predictor, by which columns are found in its tables."""
    classes = getattr(predictor, "classes", range(0))
    return layout if isinstance(classes, range) else layout._replace(known=tuple(map(str, classes)))


def in_memory(given: Data | Scan) -> Data:
    """Return Data as they are, and read all rows of a Scan into memory."""
    return given if isinstance(given, Data) else given.read_all()


def read_all(paths: list[Path] | None, labels: Path | None, layout: Layout) -> Data:
    """Read data files into memory; without a path, return the embedded example."""
    return in_memory(read(paths, labels, layout))


def join_models(given: Data, others: list[Path], layout: Layout, *, labelled: bool = False) -> Data:
    """Return data with the probabilities of all models of a stack, (n, M, K): those of `given` and of other files.

    Args:
        given: the data of the first model.
        others: a file for each further model.
        layout: the roles of the columns of tables.
        labelled: True to compare the labels of the files.

    Raises:
        InputError: the files have other rows, or labels, ids or names of image files that differ.
    """
    every = [given, *(read_data(path, None, layout) for path in others)]
    of_first = _row_identities(given, labelled)
    for each in every[1:]:
        for name, values in _row_identities(each, labelled).items():
            if name in of_first and not np.array_equal(of_first[name], values):
                sentence = f"Expected the rows of {given.name} in the same order in {each.name}, got other {name}"
                raise InputError(sentence, "save the probabilities of all models for the same rows")
    models = rows_of_models([each.rows for each in every], None, False)
    probs = np.stack([rows.verified().block(0, rows.n) for rows in models], axis=1)
    return replace(given, probs=probs, from_logits=False, checked=True)


def _row_identities(data: Data, labelled: bool) -> dict[str, Any]:
    """Return what identifies the rows of a file, by name: ids, names of image files from `train`, and labels."""
    found: dict[str, Any] = dict(data.ids)
    if data.path is not None and data.path.suffix == ".npz" and (files := read_member(data.path, "files")) is not None:
        found["files"] = files
    if labelled and data.labels is not None:
        found["labels"] = np.array(data.classes or range(data.probs.shape[1]))[data.truth()]
    return found


def batches(given: Data | Scan, *needs: str, classes: Any = None, start: int = 0) -> Iterator[Batch]:
    """Yield batches of rows: all rows of Data as one batch, or the batches of a Scan from row `start` on.

    Args:
        given: data in memory, or tables that are read in batches.
        needs: the columns to read in addition to the probabilities: "labels", "groups", "ids".
        classes: class names for data without any.
        start: the number of the first row of a Scan.
    """
    if isinstance(given, Data):
        labels = given.truth(classes) if "labels" in needs else None
        yield Batch(given.rows, labels, given.groups, given.ids, 0, partial(naming, given.name))
    else:
        yield from watched(given, *needs, start=start)


def predicts_in_batches(predictor: Any) -> bool:
    """Return True if each prediction set depends only on the probabilities, group and position of its row."""
    known = isinstance(predictor, pippin.ConformalPredictor) and len(predictor.sharpeners) < 2
    return known and predictor.takes <= {"seed", "groups"}


def read_inputs(predictor: Any, data: Any, inputs: RowInputs) -> dict[str, Any]:
    """Read the features and the weights of all rows, as far as the predictor takes them.

    Raises:
        InputError: the predictor is cross-conformal, or needs weights and got none, or got weights and takes none.
    """
    if "folds" in predictor.takes:
        what = "Expected a predictor that takes one matrix of probabilities, got one of several models"
        raise InputError(what, "use it in Python")
    if "weights" in predictor.takes and inputs.weights is None:
        raise InputError("Expected the weights of the rows, got none", "pass --weights weights.npy")
    if "weights" not in predictor.takes and inputs.weights is not None:
        what = "Expected --weights with a predictor that takes weights, got one without"
        raise InputError(what, "leave --weights out, or calibrate with --weights")
    found = {} if inputs.weights is None else {"weights": read_column(inputs.weights, "weights")}
    return found | ({"features": read_features(data)} if "features" in predictor.takes else {})


def row_inputs(predictor: Any, batch: Any, seed: Any) -> dict[str, Any]:
    """Return the arguments `seed` and `groups` of `predict` for a batch, as far as the predictor takes them."""
    given = {"seed": seed, "groups": batch.groups}
    return {name: value for name, value in given.items() if name in predictor.takes}


def read_scores(text: str) -> tuple[Method, ...]:
    """Parse a list of methods separated by commas, each a score with options.

    `paper` stands for the six scores of the paper (Melki et al. 2024), `all` for all scores but `linear`.

    >>> read_scores("raps(lam=0.1, k_reg=2),pip per class")
    (raps(lam=0.1, k_reg=2), pip per class)
    """
    every = tuple(make_score(name, {}) for name in FAMILIES if name != "linear")
    several = {"paper": PAPER_SCORES, "all": every}
    parts, depth = [""], 0
    for character in text:  # split at the commas outside parentheses
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    names = [part.strip() for part in parts]
    return parse_methods([score for name in names for score in several.get(name) or (parse_method(name),)])


def read_values(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas; whole numbers become integers.

    >>> read_values("0, 0.01,1")
    (0, 0.01, 1)
    """
    try:
        return tuple(int(part) if part.strip().lstrip("+-").isdigit() else float(part) for part in text.split(","))
    except ValueError as error:
        what = f"Expected --values to be numbers separated by commas, got {text!r}"
        raise InputError(what, "write for example 0,0.01,0.1") from error


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect Dask to the scheduler at this address; do nothing if it is None.

    Raises:
        InputError: no scheduler answers, or its workers end repeatedly.
    """
    if address is None:
        yield
        return
    need("--scheduler", "dask", "dask", "distributed")
    from distributed import Client, KilledWorker, LocalCluster

    with ExitStack() as stack:
        local = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
        where: Any = stack.enter_context(LocalCluster(**local)) if address == "local" else address
        try:
            stack.enter_context(Client(where))
        except (OSError, ValueError) as error:
            raise InputError(f"No Dask scheduler answers at {address}", "check the address, or pass local") from error
        try:
            yield
        except KilledWorker as error:
            what = "Workers of the cluster ended repeatedly on the same rows"
            remedy = "give them more memory, or raise distributed.scheduler.allowed-failures, and run this again"
            raise InputError(what, remedy) from error
