"""`pippin toy`: the paper's six toy cases, drawn and scored."""

from pathlib import Path
from typing import Annotated

from pippin.cli.options import an_option
from pippin.cli.outputs import output_folder
from pippin.cli.printing import console, new_table
from pippin.cli.report.toy_cases import CASES, OWN

_OUT = an_option("Draw them there too, as toy.png and toy.svg.", metavar="DIR")
BAR = 40  # characters for a probability of 1


def toy(out: Annotated[Path | None, _OUT] = None) -> None:
    """Score the paper's six toy cases, beside its figures."""
    from rich.text import Text

    if out is not None:
        from pippin.cli.report import write_toy

        with output_folder(out):
            write_toy(out)
    screen = console()
    screen.print("Six classifiers give class y the same probability, 0.1; they differ in what they put above it.\n")
    headings = ("case", "IP", "expected", "MS", "expected", "PIP", "expected")
    table = new_table(*headings, title="Score of y: computed here, and expected from the paper")
    for number, case in enumerate(CASES, 1):
        drawing = Text(f"Case {number}\n", style="bold")
        for name, p in (*zip("abcdefgh", case.above, strict=False), ("y", OWN)):
            drawing.append(f"  {name}  {p:.2f} ", style="not bold")
            drawing.append("█" * round(p * BAR) + "\n", style="yellow" if name == "y" else "blue")
        screen.print(drawing)
        scores = case.computed().items()
        table.add_row(str(number), *(f"{v:.2f}" for name, score in scores for v in (score, case.expected[name])))
    screen.print(table)
    screen.print("IP cannot tell the cases apart, MS not 3 to 5; PIP orders all six.")
    screen.print("The probabilities are reconstructed from the paper's table; case 5 is one of several that fit.")
