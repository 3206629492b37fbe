"""`pippin field`: a model for the field from the parts that other commands wrote, and photographs under it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin._runtime.errors import InputError
from pippin._runtime.extras import need
from pippin.cli.options import Fallback, UtilityFile
from pippin.cli.train import Device

if TYPE_CHECKING:
    from pippin.images import FieldModel

SHOWN = 10  # photographs that were skipped, by name

field = typer.Typer(help="From new photographs to sets, decisions and a picture of them.")

WeightsFolder = Annotated[
    Path, typer.Option(metavar="DIR", help="The folder weights that train wrote.", show_default=False)
]
Calibrated = Annotated[
    Path, typer.Option("--predictor", metavar="FILE", help="What calibrate wrote from its logits.", show_default=False)
]
DeciderFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What calibrate --utility wrote from its logits.", show_default=False),
]
Calibration = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The .npz that calibrated, to be told what is wrong with it.", show_default=False
    ),
]
Windows = Annotated[
    int | None,
    typer.Option(
        min=1, help="Cut photographs into windows of so many pixels; whole images, if not given.", show_default=False
    ),
]
RunWindows = Annotated[
    int | None,
    typer.Option(
        min=1, help="Cut into windows of so many pixels; as the model says, if not given.", show_default=False
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="What field make wrote.", show_default=False)]
Photos = Annotated[
    list[Path], typer.Argument(metavar="PHOTOS...", help="Photographs, or folders of them.", show_default=False)
]


@field.command(
    "make", epilog="Example: pippin field make --weights weights --predictor predictor.json --windows 224 --out MODEL"
)
def make(
    weights: WeightsFolder,
    predictor: Calibrated,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the model.", show_default=False)],
    decider: DeciderFile = None,
    utility: UtilityFile = None,
    fallback: Fallback = None,
    windows: Windows = None,
    calibration: Calibration = None,
) -> None:
    """Put a network, how its images are read, its predictor and its decisions into one folder.

    Parts that do not belong together are refused: classes in another order, calibrated on images that trained, or on
    the logits of another network.
    """
    need("A field model", "vision", "torch", "transformers", "safetensors", "PIL")
    from pippin.images import FieldModel

    if not out.absolute().parent.is_dir():
        raise InputError(f"Expected --out in a folder that exists, got {out}", f"make the folder {out.parent} first")
    made = FieldModel.make(
        weights,
        predictor,
        decider=decider,
        utility=utility,
        fallback=fallback,
        window=windows,
        calibration=calibration,
    )
    made.save(out)
    print(f"{out}: {made.describe()}\nNext: pippin field run {out} PHOTOS --out results")


@field.command("run", epilog="Example: pippin field run MODEL photographs --out results")
def run(
    model: Model,
    photos: Photos,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the results.", show_default=False)],
    windows: RunWindows = None,
    device: Device = "auto",
) -> None:
    """Look at photographs: a line per window, and every photograph drawn; a stopped run goes on where it was.

    Writes results.jsonl, results.parquet, run.json and the folder drawn. A photograph that cannot be read is named and
    skipped.
    """
    need("A field model", "vision", "torch", "transformers", "safetensors", "PIL")
    from pippin._runtime.progress import progress_bar
    from pippin.cli.outputs import output_folder
    from pippin.images.field.folder import manifest_checksum
    from pippin.images.field.running import list_photographs, open_run

    every = list_photographs(photos, out)
    loaded = _loaded(model, windows, device)
    with output_folder(out), _threads(), open_run(loaded, manifest_checksum(model), out) as journal:
        with progress_bar("looking at photographs", len(every)) as advance:
            for photo in every:
                journal.see(photo)
                advance(1)
        _tell(journal.finish([photo.as_posix() for photo in every]), out)


def _loaded(model: Path, windows: int | None, device: str) -> "FieldModel":
    import torch

    from pippin.images import FieldModel

    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"Expected --device to be auto or cpu or cuda, got {device!r}", "choose one of them")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("Expected a CUDA device for --device cuda, but torch finds none", "pass --device auto or cpu")
    where = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    loaded = FieldModel.load(model, device=where)
    return loaded if windows is None else replace(loaded, window=windows)


@contextmanager
def _threads() -> Iterator[None]:
    """As many threads as may be used, and then as many as before."""
    import torch

    from pippin._runtime.threads import n_threads

    before = torch.get_num_threads()
    torch.set_num_threads(n_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tell(summary: dict[str, Any], out: Path) -> None:
    from pippin._runtime.visible import visible

    n, skipped = summary["photographs"]["looked at"], summary["skipped"]
    counts = ", ".join(f"{name} {count:,}" for name, count in summary["counts"].items())
    print(visible(f"{n:,} photographs, {summary['windows']:,} windows: {counts or 'nothing'}."))
    if skipped:
        print(f"{len(skipped):,} photographs were skipped:")
        for one in skipped[:SHOWN]:
            print(
                visible(f"  {one['reason']}" if one["photo"] in one["reason"] else f"  {one['photo']}: {one['reason']}")
            )
        if len(skipped) > SHOWN:
            print(f"  and {len(skipped) - SHOWN:,} more, named in {out / 'run.json'}")
    print(f"The results: {out / 'results.jsonl'}; the photographs with their windows: {out / 'drawn'}")
