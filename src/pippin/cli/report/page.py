"""The report as one page: the results filled into `page.html`, with its style and script inside."""

import platform
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pippin._compare.comparison import Comparison
from pippin._compare.evidence import Difference, differences
from pippin._compare.report_data import LevelCurve, Study
from pippin._compare.verdict import Pick, Verdict, on_absent, on_sample
from pippin._conformal.metrics import WORDS, Evaluation
from pippin._plotting.front import HOLLOW, Front
from pippin._plotting.splits import look
from pippin._runtime.version import __version__
from pippin.cli.report.classes import ClassCoverage
from pippin.cli.report.decisions import decisions_section
from pippin.cli.report.embedded import FIRST_STEP, LAST_STEP, as_json
from pippin.cli.report.framing import Page, asset, filled, framed
from pippin.cli.report.names import escaped

COLUMNS = {
    "score": "",
    **{name: meaning for name, (_, meaning) in WORDS.items()},
    "threshold": "classes that score up to this enter the set",
}
BETTER = {"mean_size": "less is better", "singleton_rate": "more is better"}
CONDITIONAL = {
    "score": "",
    "worst class": "the class that is covered least",
    "worst class coverage": "more is better",
    "covgap": "mean distance of the classes from the promise; less is better",
    "sscv": "largest distance over sets of like size; less is better",
    "worst group": "the group that is covered least",
    "worst group coverage": "more is better",
}
NAMES = {
    **{name: word for name, (word, _) in WORDS.items()},
    "covgap": "CovGap",
    "sscv": "SSCV",
    "worst class coverage": "its coverage",
    "worst group coverage": "its coverage",
}
FEW_PAIRS = 15  # pairs of scores that are shown at once


class Drawn(NamedTuple):
    """What is drawn: the classes under one score and under its version per class, the fronts, and figures as SVG."""

    by_class: dict[str, ClassCoverage]
    front: Front
    images: dict[str, str]


def build_page(study: Study, drawn: Drawn, title: str, run: dict[str, str]) -> str:
    """The page's HTML."""
    comparison, verdict, curves = study.comparison, study.verdict, study.curves
    by_class, front, images = drawn
    pairs = list(zip(*(differences(comparison, name) for name in ("mean_size", "singleton_rate")), strict=True))
    conditional = comparison.conditional().to_dicts()
    step = min(max(round(1000 * comparison.alpha), FIRST_STEP), LAST_STEP)
    main = filled(
        "page.html",
        sentences="\n".join(
            f'<p class="{"first" if i == 0 else "then"}">{_prose(text)}</p>' for i, text in enumerate(verdict.sentences)
        ),
        picks="\n".join(_pick_row(a, b) for a, b in zip(verdict.compared, verdict.tuned, strict=True)),
        checks="\n".join(
            f'<li class="{"good" if check.good else "doubt"}"><b>{"✓" if check.good else "!"}</b>'
            f"{_prose(check.message)}</li>"
            for check in verdict.checks
        ),
        summary=_sortable("summary", "Results of every score", COLUMNS, _summary_rows(comparison, verdict)),
        level=f"{100 * (1 - comparison.alpha):g}%",
        conditional=_sortable(
            "conditional",
            "Coverage of classes and groups",
            _conditional_columns(conditional),
            _conditional_rows(conditional),
        ),
        parts="class and group" if "worst_group" in conditional[0] else "class",
        absent=escaped(on_absent(comparison)),
        pooled=_pooled(comparison),
        violins=_figure(
            images["violins"],
            "Every score on every split: one point per split, a violin for their density, a bar at the mean. "
            f"The dashed line is the promised coverage, {1 - comparison.alpha:g}."
            + (f" Pale, with a dashed edge: {HOLLOW}." if any(look(one).hollow for one in comparison.scores) else ""),
        ),
        front=_figure(images["front"], "Size against singletons."),
        front_splits=f"{max((found.splits for found in verdict.fronts.values()), default=0):,}",
        n_calibration=f"{comparison.closer.n_calibration:,}",
        n_test=f"{curves[0].n_test:,}",
        sampled=_sampled(curves),
        first_step=FIRST_STEP,
        last_step=LAST_STEP,
        step=step,
        decisions=decisions_section(study.decisions, _figure_of(images)) if study.decisions is not None else "",
        details=_details(study.evaluations, by_class, images, comparison),
        n_pairs=f"{len(pairs):,} pair{'s' if len(pairs) != 1 else ''} of scores",
        pairs_open=" open" if len(pairs) <= FEW_PAIRS else "",
        pairs="\n".join(_pair_row(size, singletons) for size, singletons in pairs),
        command=f"<pre><code>{escaped(run['command'])}</code></pre>" if "command" in run else "",
        run="\n".join(_run_rows(comparison, run)),
    )
    return framed(
        Page(
            title=escaped(title),
            lead=escaped(_lead(comparison)),
            main=main,
            first="verdict",
            skip="the verdict",
            footer="This page is one file: it loads nothing and sends nothing.",
            css=asset("page.css"),
            js=asset("page.js"),
            data=as_json(front, curves, comparison.closer.n_calibration, verdict.take),
        )
    )


def _prose(text: str) -> str:
    """Escapes a sentence; what stands between backquotes becomes code."""
    pieces = escaped(text).replace(" %", "\N{NO-BREAK SPACE}%").split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))


def _lead(comparison: Comparison) -> str:
    several = len(comparison.scores) > 1
    who = f"{len(comparison.scores)} scores were" if several else f"{comparison.scores[0]} was"
    splits = "one random split" if comparison.splits == 1 else f"{comparison.splits:,} random splits"
    return (
        f"{who} calibrated and tested on {'the same ' if several and comparison.splits > 1 else ''}{splits} of "
        f"{comparison.n:,} rows: {comparison.n_calibration:,} rows calibrate, the other {comparison.n_test:,} test. "
        f"At α = {comparison.alpha:g} the prediction sets should hold the true class {100 * (1 - comparison.alpha):g}% "
        "of the time."
    )


def _pick_row(compared: Pick, tuned: Pick) -> str:
    preference = f'<th scope="row">{escaped(compared.preference)}</th>'
    if tuned.preference != compared.preference:
        preference = f'<th scope="row">{escaped(compared.preference)}; tuned: {escaped(tuned.preference)}</th>'
    return "<tr>" + preference + "".join(_pick_cell(pick) for pick in (compared, tuned)) + "</tr>"


def _pick_cell(pick: Pick) -> str:
    return (
        f"<td><strong>{escaped(pick.score)}</strong> <small>size {pick.mean_size:.2f}, "
        f"{pick.singleton_rate:.1%} singletons</small></td>"
    )


def _sortable(name: str, told: str, columns: dict[str, str], rows: Iterable[str]) -> str:
    headings = "\n".join(_heading(column, note) for column, note in columns.items())
    return filled("table.html", table=name, told=told, headings=headings, rows="\n".join(rows)).rstrip()


def _heading(name: str, told: str) -> str:
    small = f"<small>{'; '.join([told, *filter(None, [BETTER.get(name)])])}</small>" if told else ""
    kind = ' class="name"' if name in ("worst class", "worst group") else ""
    title = NAMES.get(name, name)
    return f'<th scope="col"{kind}><button type="button">{title}</button>{small}</th>'


def _summary_rows(comparison: Comparison, verdict: Verdict) -> Iterable[str]:
    best = {("mean_size", str(verdict.compared[0].score)), ("singleton_rate", str(verdict.compared[1].score))}
    for row in comparison.summary().iter_rows(named=True):
        cells = [f'<th scope="row">{escaped(row["score"])}</th>']
        for name in list(COLUMNS)[1:]:
            mean, sd = row[name], row[f"{name}_sd"]
            share = name not in ("mean_size", "threshold")
            told = f"{mean:.1%} <span>± {100 * sd:.1f}</span>" if share else f"{mean:.3f} <span>± {sd:.3f}</span>"
            told = "<span>several</span>" if np.isnan(mean) else told
            mark = ' class="best"' if (name, row["score"]) in best else ""
            cells.append(f'<td{mark} data-value="{mean!r}">{_signs(told)}</td>')
        yield f"<tr>{''.join(cells)}</tr>"


def _conditional_columns(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The headings of the table of classes and groups."""
    return {name: told for name, told in CONDITIONAL.items() if name.replace(" ", "_") in rows[0]}


def _conditional_rows(rows: list[dict[str, Any]]) -> Iterable[str]:
    fairest = {key: min(row[key] for row in rows) for key in ("covgap", "sscv")}
    for row in rows:
        cells = [f'<th scope="row">{escaped(row["score"])}</th>']
        for name in list(_conditional_columns(rows))[1:]:
            key = name.replace(" ", "_")
            value = row[key]
            if name in ("worst class", "worst group"):
                cells.append(f'<td class="name">{escaped(value)}</td>')
                continue
            told = f"{value:.3f}" if key in fairest else f"{value:.1%}"
            mark = ' class="best"' if value == fairest.get(key) and len(rows) > 1 else ""
            cells.append(f'<td{mark} data-value="{value!r}">{told}</td>')
        yield f"<tr>{''.join(cells)}</tr>"


def _pair_row(size: Difference, singletons: Difference) -> str:
    pair = f'<th scope="row">{escaped(size.first)} − {escaped(size.second)}</th>'
    return f"<tr>{pair}{_gap(size, 1, 3)}{_gap(singletons, 100, 1)}</tr>"


def _gap(gap: Difference, scale: int, digits: int) -> str:
    mark = ' class="clear"' if gap.clear else ""
    mean, low, high = (_signs(f"{scale * x:+.{digits}f}") for x in (gap.mean, gap.low, gap.high))
    return f'<td{mark} data-value="{gap.mean!r}">{mean}</td><td><span>{low} … {high}</span></td>'


def _signs(text: str) -> str:
    return text.replace("-", "−").replace("inf", "∞").replace("nan", "–")


def _figure(svg: str, caption: str, kind: str = "wide") -> str:
    return (
        f'<figure class="{kind}"><div class="scroll" tabindex="0" role="img" aria-label="{escaped(caption)}">'
        f"{svg}</div><figcaption>{escaped(caption)}</figcaption></figure>"
    )


def _figure_of(images: dict[str, str]) -> str:
    return _figure(
        images["decisions"],
        "What each kind of decisions promises, and what comes of it, on the first split, as more broken certificates "
        "are allowed. The dotted line is the best response, which promises nothing; the dashed one the level asked.",
    )


def _pooled(comparison: Comparison) -> str:
    return "the one split" if comparison.splits == 1 else f"the first {comparison.pooled:,} splits"


def _sampled(curves: Sequence[LevelCurve]) -> str:
    """Which curves rest on fewer test rows."""
    fewer = {str(curve.method): curve.n_test for curve in curves if curve.n_test < curves[0].n_test}
    return f" {escaped(', '.join(fewer))}: {min(fewer.values()):,} of them, at random." if fewer else ""


def _promised(method: str) -> str:
    """For whom a method of the figure of classes promises its level."""
    return "each cluster of classes" if method.endswith(" per cluster") else "each class"


def _details(
    evaluations: dict[str, Evaluation],
    by_class: dict[str, ClassCoverage],
    images: dict[str, str],
    comparison: Comparison,
) -> str:
    if not evaluations:
        return ""
    shown, *partner = by_class
    found = next(iter(evaluations.values()))
    rows = "\n".join(
        f'<tr><th scope="row">{escaped(name)}</th><td data-value="{n}">{n:,}</td>'
        + "".join(f'<td data-value="{other[name][1]!r}">{other[name][1]:.1%}</td>' for other in by_class.values())
        + "</tr>"
        for name, (n, _) in by_class[shown].items()
    )
    headings = {"class": "", "rows": ""} | (dict.fromkeys(by_class, "coverage") if partner else {"coverage": ""})
    buttons = "".join(_heading(escaped(name), told) for name, told in headings.items())
    sizes = _figure(
        images["sizes"],
        f"The sizes of the sets on the first split ({found.n:,} test rows). Hatched: singletons.",
    )
    occurring = " with rows" if on_absent(comparison) else ""
    beside = f"Hollow marks: {partner[0]}, which promises it for {_promised(partner[0])}. " if partner else ""
    classes = _figure(
        f'<div class="roomy">{images["classes"]}</div><div class="narrow">{images["narrow"]}</div>',
        f"Coverage of each class under {shown}, over {_pooled(comparison)}, the worst on top. Hatched bars fall short "
        "of the dashed line, the level asked for; at the right, coverage and the rows of the class. "
        f"{shown} promises that level for all objects together, not for each class. {beside}A class of few rows "
        "wanders.",
        "tall",
    )
    return f"""<section aria-labelledby="h-sets">
<h2 id="h-sets">Inside the sets</h2>
{sizes}
{classes}
<details><summary>All {len(by_class[shown]):,} classes{occurring} as a table</summary>
<div class="scroll" tabindex="0" role="region" aria-label="Coverage of every class">
<table class="sortable numbers" id="classes"><thead><tr>{buttons}</tr></thead><tbody>
{rows}
</tbody></table></div></details>
</section>"""


def _run_rows(comparison: Comparison, run: dict[str, str]) -> Iterable[str]:
    """What the caller tells, after what is known anyway."""
    known = {
        "alpha": f"{comparison.alpha:g}",
        "splits": f"{comparison.splits:,}",
        "seed": str(comparison.seed),
        "rows": f"{comparison.n:,}, of which {comparison.n_calibration:,} calibrate",
        "scores": ", ".join(map(str, comparison.scores)),
        "pippin": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }
    if sampled := on_sample(comparison):
        known["sample"] = sampled
    for name, value in (known | run).items():
        if name != "command":
            yield f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>"
