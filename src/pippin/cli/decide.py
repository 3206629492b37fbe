"""`pippin decide`: actions for new data, and what the other commands do with a utility."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pippin._runtime.errors import InputError
from pippin.cli.inputs import read_or_example
from pippin.cli.options import Beside, Columns, DataFile, PredictorFile, Worth, an_option

if TYPE_CHECKING:
    from pippin._conformal.predictor import ConformalPredictor
    from pippin.decisions import Decisions, Utility
    from pippin.tables.reading import Data

ACTIONS = "The actions: .csv, .parquet or .jsonl; - prints them as .csv."


class Chosen(NamedTuple):
    """Decisions, and the utility that they were made for."""

    decisions: "Decisions"
    utility: "Utility"


def decide(
    predictor: PredictorFile,
    data: DataFile,
    out: Annotated[Path, an_option(ACTIONS, metavar="FILE")],
    *,
    worth: Worth,
    beside: Beside,
    columns: Columns,
) -> None:
    """Write the action for every row, and the utility that is certified for it.

    PREDICTOR is a decider, from calibrate --utility; or any predictor, with --utility: then the action is the best in
    the worst case over its prediction set.
    """
    import pippin
    from pippin.cli.outputs import check_target
    from pippin.tables.formats import STDIN
    from pippin.tables.writing import decisions_table, write_decisions

    printed = out == STDIN  # which is spelled as standard output is
    if not printed:
        check_target(out, ".csv", ".parquet", ".jsonl")
    calibrated = pippin.load(predictor)
    given = read_or_example(data, None, columns.layout)
    if not printed and out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"Expected --out to be another file than the data, got {out} for both", "rename it")
    found = acted(calibrated, given, worth, beside).decisions
    tell = partial(print, file=sys.stderr if printed else sys.stdout)
    if printed:
        sys.stdout.buffer.write(decisions_table(found, given.ids).write_csv().encode())
    else:
        write_decisions(out, found, given.ids)
        tell(f"{len(found):,} actions are in {out}.")
    shares = ", ".join(f"{name} {100 * n / len(found):.3g} %" for name, n in found.counts().items())
    tell(f"{shares}. {calibrated.describe()}")


def acted(predictor: "ConformalPredictor", given: "Data", worth: Worth, beside: Beside) -> Chosen:
    """What a decider does, or any predictor with a utility."""
    import pippin
    from pippin.cli.inputs import asked_of
    from pippin.tables.reading import naming

    asked, (utility, fallback) = asked_of(predictor, given, beside), worth
    if isinstance(predictor, pippin.decisions.Decider):
        if utility is not None or fallback is not None:
            odd = "--fallback" if utility is None else "--utility"
            raise InputError(f"Expected a decider without {odd}, since it has its own utility", "leave it out")
        with naming(given.name):
            return Chosen(predictor.decide(given.rows, groups=asked.get("groups")), predictor.utility)
    if utility is None:
        raise InputError(
            f"Expected a decider, got a {type(predictor).__name__}, which knows no actions",
            "calibrate one with --utility, or pass --utility to act on the worst case over its sets",
        )
    with naming(given.name):
        sets = predictor.predict(given.rows, **asked)
    with naming(utility):
        known = pippin.decisions.Utility.read(utility)
        return Chosen(pippin.decisions.decide(sets, known, fallback=fallback), known)


def calibrate_decider(
    given: "Data",
    utility: Path,
    alpha: float,
    out: Path,
    per: str | None,
    unseen: str,
    weights: Path | None,
    no_scores: bool,
) -> None:
    """`pippin calibrate --utility`: writes a decider, and says what it promises."""
    import pippin
    from pippin.tables.reading import known, naming, need_groups

    if weights is not None:
        raise InputError("Expected --utility without --weights, got both", "choose one of them")
    by_group = per is not None and "group" in per
    if by_group:
        need_groups(given, f"--per '{per}'")
    options: Any = {"per": per, "unseen": unseen, "groups": given.groups if by_group else None}
    with naming(utility):
        worth = pippin.decisions.Utility.read(utility)
        worth.of(given.labelled.classes)
    decider = pippin.decisions.calibrate(given.rows, known(given), worth, alpha, **options)
    decider.save(out, scores=not no_scores)
    print(f"{out}, made from {given.name}: {decider.describe()}")
    print(f"On the rows that calibrated: {decider.decide(given.rows, groups=options['groups'])!r}.")


def tell_decisions(predictor: "ConformalPredictor", given: "Data", chosen: Chosen, truth: Any) -> None:
    """`pippin evaluate` of decisions: what came of them, beside the best response."""
    import pippin

    found, utility = chosen
    evaluated = pippin.decisions.evaluate(
        found, truth, utility, alpha=predictor.alpha, n_calibration=predictor.n_calibration
    )
    best = pippin.decisions.evaluate(
        pippin.decisions.best_response(given.rows, utility, classes=predictor.classes), truth, utility
    )
    shares = ", ".join(f"{name} {100 * share:.3g} %" for name, share in best.shares.items())
    print(f"{predictor.describe()}\nOn {given.name}: {evaluated}\n\nIt {evaluated.verdict}.")
    print(
        f"The best response, which maximises expected utility and promises nothing, had {best.mean_utility:.4f} "
        f"({shares})."
    )
