"""The part of the page that tells what decisions came to."""

from html import escape

from pippin._compare.decisions import DecisionComparison


def decisions_section(comparison: DecisionComparison, figure: str) -> str:
    """A table of every kind of decisions, and the figure of what was promised and what came."""
    shares = [
        f'<th scope="col"><button type="button">{escape(name)}</button>{SHARE}</th>' for name in comparison.actions
    ]
    errors = [
        f'<th scope="col"><button type="button">{escape(name)}: errors</button>{ERROR}</th>'
        for name in comparison.actions
    ]
    rows = "\n".join(_row(row, comparison) for row in comparison.summary().to_dicts())
    level = f"{100 * (1 - comparison.alpha):g}%"
    return f"""<section aria-labelledby="h-decisions">
<h2 id="h-decisions">What to do</h2>
<p>Every action comes with a certificate: a utility that it should reach {level} of the time. <em>Calibrated
decisions</em> promise that for the decision itself; the <em>worst case</em> over a score's sets promises it by way of
sets that hold the true class, and mostly asks for more than the decision needs. The <em>best response</em> maximises
expected utility and promises nothing: beside it the price of safety is seen.</p>
<div class="scroll" tabindex="0" role="region" aria-label="What decisions came to">
<table class="sortable numbers" id="decisions">
<thead><tr><th scope="col"><button type="button">decisions</button></th>
<th scope="col"><button type="button">kept</button><small>certificates; at least {level} was asked</small></th>
<th scope="col"><button type="button">certificate</button><small>mean utility promised</small></th>
<th scope="col"><button type="button">utility</button><small>mean utility that came of it</small></th>
{"".join(shares)}{"".join(errors)}</tr></thead>
<tbody>
{rows}
</tbody></table></div>
<p class="note">Means over {comparison.splits:,} splits. An error: an action worth less than playing safe.</p>
{figure}
</section>"""


SHARE = "<small>share of objects</small>"
ERROR = "<small>share of these</small>"


def _row(row: dict[str, float], comparison: DecisionComparison) -> str:
    cells = [f'<th scope="row">{escape(str(row["decisions"]))}</th>']
    cells += [_cell(row["kept"], True), _cell(row["certificate"], False), _cell(row["utility"], False)]
    cells += [_cell(row[action], True) for action in comparison.actions]
    cells += [_cell(row[f"errors of {action}"], True) for action in comparison.actions]
    return f"<tr>{''.join(cells)}</tr>"


def _cell(value: float, share: bool) -> str:
    if value != value:
        return '<td data-value="-1"><span>–</span></td>'
    told = f"{value:.1%}" if share else f"{value:.3f}"
    return f'<td data-value="{value!r}">{told.replace("-", "−")}</td>'
