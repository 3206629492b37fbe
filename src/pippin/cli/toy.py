"""`pippin toy`: the paper's six toy cases, drawn and scored."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pippin.cli.options import an_option
from pippin.cli.report.toy_cases import CASES, OWN, Case

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

BAR = 40  # characters for a probability of 1
NAMES = {"ip": "IP", "margin": "MS", "pip": "PIP"}


Drawn = Annotated[Path | None, an_option("Draw them there too, as toy.png and toy.svg.", metavar="DIR")]


def toy(out: Drawn = None) -> None:
    """Score the paper's six toy cases, beside its figures."""
    from pippin.cli.outputs import output_folder
    from pippin.cli.printing import console

    if out is not None:
        from pippin.cli.report import write_toy

        with output_folder(out):
            write_toy(out)
    screen = console()
    screen.print("Six classifiers give class y the same probability, 0.1; they differ in what they put above it.\n")
    for number, case in enumerate(CASES, 1):
        screen.print(_drawing(number, case))
    screen.print(_table())
    screen.print("IP cannot tell the cases apart, MS not 3 to 5; PIP orders all six.")
    screen.print("The probabilities are reconstructed from the paper's table; case 5 is one of several that fit.")


def _drawing(number: int, case: Case) -> "Text":
    from rich.text import Text

    text = Text(f"Case {number}\n", style="bold")
    for name, p in zip("abcdefgh", case.above, strict=False):
        text.append(f"  {name}  {p:.2f} ", style="not bold")
        text.append("█" * round(p * BAR) + "\n", style="blue")
    text.append(f"  y  {OWN:.2f} ", style="not bold")
    text.append("█" * round(OWN * BAR) + "\n", style="yellow")
    return text


def _table() -> "Table":
    from rich.table import Table

    table = Table(title="Score of y: computed here, and expected from the paper")
    table.add_column("case", justify="right")
    for name in NAMES.values():
        table.add_column(name, justify="right")
        table.add_column("expected", justify="right", style="dim")
    for number, case in enumerate(CASES, 1):
        cells = [f"{v:.2f}" for name, value in case.computed().items() for v in (value, case.expected[name])]
        table.add_row(str(number), *cells)
    return table
