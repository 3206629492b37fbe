"""`pippin export`: a predictor as an ONNX graph or a C header."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import pippin
from pippin._conformal.exportable import exportable
from pippin._runtime.disk import write_atomically
from pippin._runtime.errors import InputError
from pippin.cli import options
from pippin.cli.outputs import check_target
from pippin.tables.reading import naming

_SOURCE = "The input of the ONNX head: probs (if not given) or logits; behind a classifier, the output of its graph."
_DTYPE = "The type of the numbers of an ONNX head alone."
_MODEL = "A classifier's ONNX graph that the head is added to."


def export(
    predictor: options.PredictorFile,
    onnx: Annotated[Path | None, options.an_option("An ONNX graph, .onnx.", metavar="FILE")] = None,
    source: Annotated[str | None, options.an_option(_SOURCE, "--input")] = None,
    dtype: Annotated[Literal["float32", "float64"], typer.Option(help=_DTYPE)] = "float32",
    append_to: Annotated[Path | None, options.an_option(_MODEL, metavar="FILE")] = None,
    output: Annotated[str | None, options.an_option("Its output that holds them, if several could.")] = None,
    c: Annotated[Path | None, options.an_option("A C99 header, .h.", "--c", metavar="FILE")] = None,
) -> None:
    """Write a predictor, or a decider, as an ONNX graph or a C header."""
    if onnx is None and c is None:
        raise InputError("Expected --onnx or --c, got neither", "name the file to write")
    if onnx is None and append_to is not None:
        raise InputError(f"Expected --onnx beside --append-to {append_to}, got none", "name the file to write")
    for option, path, ending in (("--onnx", onnx, ".onnx"), ("--c", c, ".h")):
        if path is not None:
            check_target(path, ending, option=option)
    calibrated: Any = pippin.load(predictor)
    exportable(calibrated)
    contents: dict[Path, bytes] = {}
    if onnx is not None:
        from pippin.export.onnx import appended_model, head_model

        if append_to is None:
            model = head_model(calibrated, source or "probs", dtype)
        else:
            classifier = _read_graph(append_to)
            with naming(append_to):
                model = appended_model(classifier, calibrated, source, output)
        contents[onnx] = bytes(model.SerializeToString())
    if c is not None:
        from pippin.export.c_header import c_header

        contents[c] = c_header(calibrated).encode()
    kind = "A decider" if isinstance(calibrated, pippin.decisions.Decider) else str(calibrated.score)
    for path, content in contents.items():
        write_atomically(path, content)
        print(f"{kind} with {len(calibrated.classes):,} classes is in {path}.")


def _read_graph(path: Path) -> Any:
    """Read a classifier's graph."""
    import onnx

    content = path.read_bytes()
    try:
        model = onnx.load_from_string(content)
        onnx.checker.check_model(model)
    except Exception as error:
        raise InputError(f"{path} is no ONNX graph, or keeps its weights elsewhere", "save it whole") from error
    return model
