"""`pippin prepare`: photographs with masks into a folder of labelled windows."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from pippin.cli.options import an_argument, an_option, command

if TYPE_CHECKING:
    from rich.table import Table

    from pippin.images.preparing.prepare import Draw, Prepared
    from pippin.images.preparing.windows import Options

prepare = typer.Typer()

WE3DS = Annotated[Path, an_argument("DIR", "The WE3DS folder, or WE3DS.zip as it is.")]
Windows = Annotated[Path, typer.Option(metavar="WINDOWS", help="The folder for the windows, one sub-folder per class.")]
Window = Annotated[int, typer.Option(min=32, help="The side of a window, in pixels.")]
Label = Annotated[
    Literal["plant", "all"],
    typer.Option(help="What names a window: its most frequent plant, or its most frequent class, soil included."),
]
Soil = Annotated[int, typer.Option(min=0, help="How many windows of soil are drawn at random.")]
Drop = Annotated[str | None, an_option("Classes to leave out, between commas, or none; if not given, the paper's.")]
Seed = Annotated[int, typer.Option(min=0, help="Draws the windows of soil; the same seed gives the same files.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first photograph that cannot be used.")]
Workers = Annotated[int | None, an_option("How many processes; if not given, one for each core.", min=1)]


class Cutting(NamedTuple):
    """Which windows there are."""

    window: Window = 224
    label: Label = "plant"
    soil: Soil = 1500
    drop: Drop = None
    seed: Seed = 0

    @property
    def options(self) -> "Options":
        """The same, as photographs are cut."""
        from pippin.images.preparing.we3ds import RARE
        from pippin.images.preparing.windows import Options

        dropped = RARE if self.drop is None else read_names(self.drop)
        return Options(self.window, self.label, self.soil, dropped, self.seed)


@prepare.callback()
def photographs() -> None:
    """Cut photographs with masks into labelled windows."""


@command(prepare, "prepare we3ds WE3DS.zip --out windows")
def we3ds(
    folder: WE3DS,
    out: Windows,
    *,
    cutting: Cutting,
    strict: Strict = False,
    workers: Workers = None,
) -> None:
    """Cut WE3DS into windows, one class each; a stopped run goes on where it was."""
    from pippin.cli.outputs import output_folder
    from pippin.images.preparing.prepare import prepare_we3ds

    options = cutting.options
    with output_folder(out):
        done = prepare_we3ds(folder, out, options, strict=strict, workers=workers, draw=drawing())
    _show(done)


def drawing() -> "Draw | None":
    """What draws the figures, if matplotlib is there."""
    if find_spec("matplotlib") is None:
        return None
    from pippin.cli.report.windows import write_windows

    return write_windows


def read_names(text: str) -> tuple[str, ...]:
    """Names from a list such as `pea, corn`; `none` is the empty list.

    >>> read_names("pea, corn")
    ('pea', 'corn')
    """
    names = tuple(part.strip() for part in text.split(","))
    return () if names in (("none",), ("",)) else names


def _show(done: "Prepared") -> None:
    from pippin._runtime.visible import visible
    from pippin.cli.printing import console

    record, screen = done.record, console()
    found, windows = record.photographs, record.windows
    screen.print(
        f"{found['cut']:,} of {found['found']:,} photographs gave {windows['cut']:,} windows; "
        f"{windows['all void']:,} are all void, {windows['written']:,} were written.\n"
    )
    screen.print(_table(done))
    if record.skipped:
        screen.print(f"\n{found['skipped']:,} photographs were skipped:")
        for problem in record.skipped:
            screen.print(visible(f"  {problem['file']} {problem['reason']}"))
    if done.worked_on:
        speed = done.worked_on / done.seconds
        screen.print(
            f"\n{done.worked_on:,} photographs in {done.seconds:.1f} s: {speed:.1f} per second, "
            f"{done.megabytes:,.0f} MB of memory in all processes."
        )
    else:
        screen.print("\nNothing was left to do.")
    screen.print(f"The windows: {done.folder}; their table: {done.folder / 'windows.parquet'}")
    if (done.folder / "cutting.png").is_file():
        screen.print(f"Figures: {done.folder / 'cutting.png'}, {done.folder / 'counts.png'}")
    else:
        screen.print('For figures, before a run: pip install "pippin-conformal[report]"')


def _table(done: "Prepared") -> "Table":
    from rich.table import Table

    table = Table(caption="windows per class, as labelled and as written", caption_justify="left")
    for column in ("class", "group", "before", "after"):
        table.add_column(column, justify="right" if column in ("before", "after") else "left")
    for known in done.record.classes:
        table.add_row(known["name"], known["group"], f"{known['before']:,}", f"{known['after']:,}")
    return table
