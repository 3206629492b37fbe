"""Command `pippin prepare`: cut photographs with masks into a folder of labelled windows."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pippin.cli.options import an_argument, an_option, command

if TYPE_CHECKING:
    from pippin.images.prepare import DrawFigures, Prepared

_LABEL = "The label of a window: its most frequent plant, or its most frequent class."
_DROP = "Classes to leave out, separated by commas, or none; if not given, those of the paper."
prepare = typer.Typer()


@prepare.callback()
def photographs() -> None:
    """Cut photographs with masks into labelled windows."""


@command(prepare, "prepare we3ds WE3DS.zip --out windows")
def we3ds(
    folder: Annotated[Path, an_argument("DIR", "The folder of the WE3DS data set, or WE3DS.zip.")],
    out: Annotated[Path, typer.Option(metavar="WINDOWS", help="The folder for the windows, one sub-folder per class.")],
    *,
    window: Annotated[int, typer.Option(min=32, help="The side of a window, in pixels.")] = 224,
    label: Annotated[Literal["plant", "all"], typer.Option(help=_LABEL)] = "plant",
    soil: Annotated[int, typer.Option(min=0, help="The number of windows of soil, drawn at random.")] = 1500,
    drop: Annotated[str | None, an_option(_DROP)] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the windows of soil.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first photograph that cannot be used.")] = False,
    workers: Annotated[int | None, an_option("The number of processes; if not given, one per core.", min=1)] = None,
) -> None:
    """Cut WE3DS into windows of one class each; an interrupted run resumes."""
    from pippin.cli.outputs import output_folder
    from pippin.images.prepare import prepare_we3ds
    from pippin.images.we3ds import RARE
    from pippin.images.windows import WindowOptions

    draw: DrawFigures | None = None
    if find_spec("matplotlib") is not None:
        from pippin.cli.report.windows import write_windows

        draw = write_windows
    options = WindowOptions(window, label, soil, RARE if drop is None else read_names(drop), seed)
    with output_folder(out):
        result = prepare_we3ds(folder, out, options, strict=strict, workers=workers, draw=draw)
    _print_result(out, result)


def read_names(text: str) -> tuple[str, ...]:
    """Split names at commas; `none` stands for no names.

    >>> read_names("pea, corn")
    ('pea', 'corn')
    """
    names = tuple(part.strip() for part in text.split(","))
    return () if names in (("none",), ("",)) else names


def _print_result(out: Path, result: "Prepared") -> None:
    from pippin._runtime.showing import visible
    from pippin.cli.printing import console, new_table

    record, screen = result.record, console()
    photographs, windows = record.photographs, record.windows
    screen.print(
        f"{photographs['cut']:,} of {photographs['found']:,} photographs gave {windows['cut']:,} windows; "
        f"{windows['all void']:,} are entirely void, {windows['written']:,} were written.\n"
    )
    caption = "windows per class: labelled, and written to the folder"
    table = new_table("class", "group", "labelled", "written", left=("class", "group"), caption=caption)
    for known in record.classes:
        table.add_row(known["name"], known["group"], f"{known['before']:,}", f"{known['after']:,}")
    screen.print(table)
    if record.skipped:
        screen.print(f"\n{photographs['skipped']:,} photographs were skipped:")
        for problem in record.skipped:
            screen.print(f"  {visible(problem['file'])} {problem['reason']}")
    speed = f"{result.worked_on / result.seconds:.1f} per second, {result.megabytes:,.0f} MB of memory in all processes"
    done = f"{result.worked_on:,} photographs in {result.seconds:.1f} s: {speed}."
    screen.print(f"\n{done if result.worked_on else 'Nothing was left to do.'}")
    screen.print(f"The windows: {out}; their table: {out / 'windows.parquet'}")
    if (out / "cutting.png").is_file():
        screen.print(f"Figures: {out / 'cutting.png'}, {out / 'counts.png'}")
    else:
        screen.print('For figures, install this before a run: pip install "pippin-conformal[report]"')
