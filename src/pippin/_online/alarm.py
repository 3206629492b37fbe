"""What a monitor says after each row."""

import math
import sys
from typing import NamedTuple

LARGEST_LOG = math.log(sys.float_info.max)


class Alarm(NamedTuple):
    """True once the evidence has passed 1/delta; `str()` of it is a sentence.

    Attributes:
        raised: whether the evidence has passed 1/delta.
        evidence: how large it is now.
        row: the row that was looked at, counted from 0.
        changepoint: the row with which the change most likely began; None before an alarm.
    """

    raised: bool
    evidence: float
    row: int
    changepoint: int | None

    def __bool__(self) -> bool:
        return self.raised

    def __str__(self) -> str:
        if not self.raised:
            return f"Row {self.row:,}: no alarm; the evidence of a change is {self.evidence:.3g}."
        return (
            f"Row {self.row:,}: the rows have changed, most likely since row {self.changepoint:,}; "
            f"the evidence is {self.evidence:.3g}."
        )


def capital(log: float) -> float:
    """What bettors hold, from its logarithm; no more than the largest float."""
    return math.exp(min(log, LARGEST_LOG))
