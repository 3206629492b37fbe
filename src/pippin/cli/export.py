"""Command `pippin export`: write a predictor as an ONNX graph or a C header."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import pippin
from pippin._conformal.exportable import exportable
from pippin._runtime.disk import write_atomically
from pippin._runtime.errors import InputError
from pippin.cli import options
from pippin.cli.outputs import check_target, echo
from pippin.tables.reading import naming

_SOURCE = "The input of the ONNX graph: probs (default) or logits; with --append-to, the kind of the model's output."
_DTYPE = "The input type of the ONNX graph; without --append-to."
_MODEL = "The ONNX graph of a classifier, to which the prediction sets are appended."
_PRECISION = "float64 for the sets of Python; float32 for accelerators such as TensorRT: thresholds are rounded up."
_OPSET = "The opset of the ONNX graph, 13 to 21; if not given 17, or that of the model to which the graph is appended."
_PREFIX = "With --c: the prefix of all C names; different ones for headers of one program."
_WEIGHTS = "With --c: the folder of the network's weights; the header then also resizes images as in the training."
_OUTPUT = "With --append-to: the output of the model that holds its probabilities or logits, if several could."


def export(
    predictor: options.PredictorFile,
    onnx: Annotated[Path | None, options.an_option("The ONNX graph to write, .onnx.", metavar="FILE")] = None,
    source: Annotated[str | None, options.an_option(_SOURCE, "--input")] = None,
    dtype: Annotated[Literal["float32", "float64"], typer.Option(help=_DTYPE)] = "float32",
    append_to: Annotated[Path | None, options.an_option(_MODEL, metavar="FILE")] = None,
    output: Annotated[str | None, options.an_option(_OUTPUT)] = None,
    precision: Annotated[Literal["float64", "float32"], typer.Option(help=_PRECISION)] = "float64",
    opset: Annotated[int | None, options.an_option(_OPSET)] = None,
    c: Annotated[Path | None, options.an_option("The C99 header to write, .h.", "--c", metavar="FILE")] = None,
    prefix: Annotated[str, typer.Option(metavar="NAME", help=_PREFIX)] = "pippin",
    weights: Annotated[Path | None, options.an_option(_WEIGHTS, metavar="FOLDER")] = None,
) -> None:
    """Write a predictor or decider as an ONNX graph or a C header."""
    if onnx is None and c is None:
        raise InputError("Expected --onnx or --c, got neither", "name the file to write")
    if onnx is None and append_to is not None:
        raise InputError(f"Expected --onnx with --append-to {append_to}, got none", "name the file to write")
    if c is None and weights is not None:
        raise InputError(f"Expected --c with --weights {weights}, got none", "name the header to write")
    for option, path, ending in (("--onnx", onnx, ".onnx"), ("--c", c, ".h")):
        if path is not None:
            check_target(path, ending, option=option)
    calibrated: Any = pippin.load(predictor)
    exportable(calibrated)
    contents: dict[Path, bytes] = {}
    if onnx is not None:
        from pippin.export.onnx import appended_model, head_model

        if append_to is None:
            settings: dict[str, Any] = {} if opset is None else {"opset": opset}
            model = head_model(calibrated, source or "probs", dtype, precision=precision, **settings)
        else:
            classifier = _read_graph(append_to)
            with naming(append_to):
                model = appended_model(classifier, calibrated, source, output, precision=precision, opset=opset)
        contents[onnx] = bytes(model.SerializeToString())
    if c is not None:
        from pippin.export.c_header import c_header

        contents[c] = c_header(calibrated, prefix, weights=weights).encode()
    kind = "A decider" if isinstance(calibrated, pippin.decisions.Decider) else str(calibrated.score)
    for path, content in contents.items():
        write_atomically(path, content)
        echo(f"{kind} with {len(calibrated.classes):,} classes is in {path}.")


def _read_graph(path: Path) -> Any:
    """Read the ONNX graph of a classifier from a file, and check that it is valid."""
    import onnx

    content = path.read_bytes()
    try:
        model = onnx.load_from_string(content)
        onnx.checker.check_model(model)
    except Exception as error:
        what = f"Expected an ONNX graph with its weights in one file, got {path}"
        raise InputError(what, "save the model as one file") from error
    return model
