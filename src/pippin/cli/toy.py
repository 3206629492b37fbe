"""Command `pippin toy`: six example distributions in which a class y has probability 0.1, and the scores of y.

The paper prints the IP, margin and PIP scores of y in these six toy cases. The probabilities are reconstructed from
these scores, which depend only on the classes more probable than y; in case 5 several distributions would fit.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pippin._conformal.calibrate import score
from pippin.cli.options import an_option
from pippin.cli.outputs import output_folder
from pippin.cli.printing import console, new_table

_OUT = an_option("Also write a figure, toy.png and toy.svg, to this folder.", metavar="DIR")
BAR = 40  # length in characters of the bar for probability 1
OWN = 0.1  # probability of the class y


@dataclass(frozen=True)
class Case:
    """Toy case of Melki et al. (2024): probabilities larger than that of a class y, and the printed scores of y."""

    above: tuple[float, ...]
    expected: dict[str, float]

    def row(self) -> list[float]:
        """Return all probabilities: more probable classes, the class y, and less probable classes up to a sum of 1."""
        rest = max(0.0, 1.0 - sum(self.above) - OWN)
        pieces = int(rest / (0.9 * OWN)) + 1
        return [*self.above, OWN, *[rest / pieces] * pieces]

    def computed(self) -> dict[str, float]:
        """Compute the scores of the class y, by name of the score."""
        return {name: float(score([self.row()], [len(self.above)], name)[0]) for name in self.expected}


CASES: tuple[Case, ...] = tuple(
    Case(above, {"ip": 0.90, "margin": margin, "pip": pip})
    for above, margin, pip in (
        ((0.12, 0.12), 0.02, 1.08),
        ((0.2,), 0.10, 1.10),
        ((0.3, 0.12), 0.20, 1.26),
        ((0.3, 0.2), 0.20, 1.30),
        ((0.3, 0.25, 0.2, 0.15), 0.20, 1.43),
        ((0.7, 0.2), 0.60, 1.70),
    )
)


def toy(out: Annotated[Path | None, _OUT] = None) -> None:
    """Score the paper's six toy cases, and compare with the scores in the paper."""
    from rich.text import Text

    if out is not None:
        from pippin.cli.report import write_toy

        with output_folder(out):
            write_toy(out)
    screen = console()
    screen.print("Six classifiers give class y the same probability, 0.1; they differ in the classes above it.\n")
    headings = ("case", "IP", "expected", "MS", "expected", "PIP", "expected")
    table = new_table(*headings, title="Score of y, and expected value from the paper")
    for number, case in enumerate(CASES, 1):
        drawing = Text(f"Case {number}\n", style="bold")
        for name, p in (*zip("abcdefgh", case.above, strict=False), ("y", OWN)):
            drawing.append(f"  {name}  {p:.2f} ", style="not bold")
            drawing.append("█" * round(p * BAR) + "\n", style="yellow" if name == "y" else "blue")
        screen.print(drawing)
        scores = case.computed().items()
        table.add_row(str(number), *(f"{v:.2f}" for name, score in scores for v in (score, case.expected[name])))
    screen.print(table)
    screen.print("IP is equal in all cases, MS (margin) in cases 3 to 5; PIP distinguishes all six.")
    screen.print("The probabilities are reconstructed from the paper's table; case 5 is one of several that fit.")
