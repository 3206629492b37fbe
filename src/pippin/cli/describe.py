"""Command `pippin describe`: print the guarantee and the provenance of a saved object."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import pippin
from pippin._conformal.card import Card, markdown_page, text_page
from pippin._runtime.errors import InputError, need
from pippin.cli.options import an_argument
from pippin.cli.outputs import echo

_FILE = (
    "A file of calibrate, tune or monitor, or that save wrote in Python; the folder of a field model; or an ONNX graph "
    "of export."
)


def describe(
    file: Annotated[Path, an_argument("FILE", _FILE)],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of plain text.")] = False,
) -> None:
    """Print the guarantee of a saved object, its level and condition, its data, versions and checksums.

    Level, condition and variation are computed from the object. What its file does not say is "not recorded".
    """
    cards = _read_cards(file)
    echo((markdown_page(str(file), cards) if markdown else text_page(cards)).removesuffix("\n"))


def _read_cards(path: Path) -> dict[str, Card]:
    """Return the cards (answers about guarantee and provenance) of a file or of a field model, by title."""
    if path.is_dir():
        need("Describing a field model", "field", "PIL")
        from pippin.images.field_model import read_cards

        return read_cards(path)
    if path.suffix.lower() == ".onnx":
        return _cards_of_graph(path)
    saved: Any = pippin.load(path)
    return {str(path): saved.card()}


def _cards_of_graph(path: Path) -> dict[str, Card]:
    """Return the cards (answers about guarantee and provenance) in the metadata of an ONNX graph of `pippin export`."""
    need("Describing an ONNX graph", "onnx", "onnx")
    import onnx

    try:
        model = onnx.load_from_string(path.read_bytes())
        entries = {entry.key: entry.value for entry in model.metadata_props}
        cards = {key: json.loads(value) for key, value in entries.items() if key.endswith(".card")}
    except OSError:
        raise
    except Exception as error:  # onnx raises exceptions of protobuf
        raise InputError(f"{path} is no ONNX graph, or is damaged", "export it again") from error
    if not cards:
        raise InputError(f"Expected an ONNX graph of pippin, but {path} has no card", "export it again")
    return {f"{path}: {key}" if len(cards) > 1 else str(path): card for key, card in cards.items()}
