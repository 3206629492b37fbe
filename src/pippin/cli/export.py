"""`pippin export`: a predictor for other places than Python."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin._runtime.errors import InputError
from pippin.cli.options import PredictorFile, an_option

if TYPE_CHECKING:
    from pippin.export.onnx import Exported

OnnxFile = Annotated[Path | None, an_option("An ONNX graph, .onnx.", metavar="FILE")]
HeaderFile = Annotated[Path | None, an_option("A C99 header, .h.", "--c", metavar="FILE")]
Source = Annotated[
    str | None,
    an_option(
        "What the ONNX head takes: probs (if not given) or logits; behind a classifier, what its graph ends in.",
        "--input",
    ),
]
Dtype = Annotated[str, typer.Option(help="What the numbers of an ONNX head alone are: float32 or float64.")]
Model = Annotated[Path | None, an_option("A classifier's ONNX graph that the head is added to.", metavar="FILE")]
Output = Annotated[str | None, an_option("Its output that holds them, if several could.")]


def export(
    predictor: PredictorFile,
    onnx: OnnxFile = None,
    source: Source = None,
    dtype: Dtype = "float32",
    append_to: Model = None,
    output: Output = None,
    c: HeaderFile = None,
) -> None:
    """Write a predictor, or a decider, as an ONNX graph or a C header."""
    import pippin
    from pippin._conformal.exportable import portable
    from pippin._runtime.disk import write_whole
    from pippin.cli.outputs import check_target

    if onnx is None and c is None:
        raise InputError("Expected --onnx or --c, got neither", "name the file to write")
    if onnx is None and append_to is not None:
        raise InputError(f"Expected --onnx beside --append-to {append_to}, got none", "name the file to write")
    for option, path, ending in (("--onnx", onnx, ".onnx"), ("--c", c, ".h")):
        if path is not None:
            check_target(path, ending, option=option)
    calibrated: Any = pippin.load(predictor)
    portable(calibrated)
    what = "A decider" if isinstance(calibrated, pippin.decisions.Decider) else str(calibrated.score)
    made: list[tuple[Path, bytes]] = []
    if onnx is not None:
        made.append((onnx, _graph(calibrated, source, dtype, append_to, output)))
    if c is not None:
        from pippin.export.c_header import c_header

        made.append((c, c_header(calibrated).encode()))
    for path, content in made:
        write_whole(path, content)
        print(f"{what} with {len(calibrated.classes):,} classes is in {path}.")


def _graph(predictor: "Exported", source: str | None, dtype: str, append_to: Path | None, output: str | None) -> bytes:
    from pippin.export.onnx import appended_model, head_model
    from pippin.tables.reading import naming

    if append_to is None:
        return bytes(head_model(predictor, source or "probs", dtype).SerializeToString())
    import onnx

    try:
        model = onnx.load_from_string(append_to.read_bytes())
        onnx.checker.check_model(model)
    except OSError:
        raise
    except Exception as error:
        raise InputError(f"{append_to} is no ONNX graph, or keeps its weights elsewhere", "save it whole") from error
    with naming(append_to):
        return bytes(appended_model(model, predictor, source, output).SerializeToString())
