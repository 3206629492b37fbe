"""Reports for tests, with class names that need escaping, and the content of their tables."""

from dataclasses import replace
from types import SimpleNamespace

import pippin
from pippin._compare import verdict
from pippin._compare.evidence import CoverageCheck
from pippin._compare.report_data import ExampleSet, Study, level_curve
from pippin._compare.splits import draw_split
from pippin.cli.report import write_report
from support.trials import trial_of

NASTY = ("<b>bold</b>", "\"quoted\" 'twice'", "</script><script>alert(1)</script>", "a & b", "ßüß 小麦 $x_1$")
TITLE = "Seedlings <i>&amp;</i> “sets”"
SCORES = (*pippin.scores.PAPER, pippin.scores.socop())


def evaluated(data, trial, score, alpha):
    """Compute the sets of the first split with public functions."""
    split = draw_split(trial, 0)
    calibration, generator = split.calibration, split.generator()
    probs, labels = data.probs, data.labels
    predictor = pippin.calibrate(
        probs[calibration], labels[calibration], score, alpha, classes=data.classes, seed=generator
    )
    sets = predictor.predict(probs[~calibration], seed=generator)
    return predictor.threshold, pippin.evaluate(sets, labels[~calibration])


def written(out, data, scores, splits, alpha=0.1):
    """Write a report."""
    comparison = pippin.compare(data.probs, data.labels, scores, alpha, splits=splits, classes=data.classes)
    trial = trial_of(data.probs, data.labels, alpha)
    judged = verdict.judge(trial, comparison)
    doubt = CoverageCheck(False, "A doubt about <these> rows.")
    judged = replace(judged, checks=(*judged.checks, doubt))
    path = write_report(
        out,
        Study(
            comparison,
            judged,
            tuple(level_curve(trial, method) for method in comparison.scores),
            {str(s): evaluated(data, trial, s.score, alpha)[1] for s in comparison.scores},
            example=ExampleSet(judged.take, tuple(zip(data.classes[:2], (0.6, 0.4), strict=True)), data.classes[1]),
        ),
        title=TITLE,
        command="pippin calibrate 'a <file>.npz' --score repip",
        run={"command": "pippin compare 'a <file>.npz'", "data": "<a file>", "checksum": "sha256 " + 8 * "0123abcd"},
    )
    return SimpleNamespace(path=path, data=data, trial=trial, comparison=comparison, verdict=judged)


def nasty_report(out):
    """Write a report of the embedded example with class names that need escaping."""
    data = pippin.load_example()
    renamed = SimpleNamespace(probs=data.probs, labels=data.labels, classes=(*NASTY, *data.classes[len(NASTY) :]))
    return written(out, renamed, SCORES, splits=30)


def rows_of(page, table):
    """Return the texts of the cells of a table body."""
    return page.eval_on_selector_all(f"{table} tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.innerText))")
