"""The page of a stream: what the monitor says, its evidence, coverage in windows, and the change marked."""

from typing import TYPE_CHECKING

from pippin._plotting.streams import draw_monitor
from pippin.cli.report.framing import Page, asset, filled, framed
from pippin.cli.report.names import escaped
from pippin.cli.report.style import inline, rendered

if TYPE_CHECKING:
    from pippin.online import Monitor

PROMISES = {
    True: "While rows stay exchangeable, an alarm is ever raised with probability at most {:g}.",
    False: "While rows stay exchangeable, about {:,.0f} rows pass between two false alarms.",
}


def stream_page(monitor: "Monitor") -> str:
    """The page's HTML, one file."""
    ever = monitor.delta is not None
    known = {
        "rows": f"{monitor.n_rows:,}",
        "alarms": f"{monitor.n_alarms:,}",
        "evidence": f"{monitor.evidence:.3g}, an alarm at {monitor.limit:.3g}",
        "since": "" if monitor.changepoint is None else f"about row {monitor.changepoint:,}",
        "predictor": monitor.predictor.describe(),
    }
    rows = "".join(
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(told)}</td></tr>' for name, told in known.items() if told
    )
    promise = PROMISES[ever].format(monitor.delta if ever else monitor.mean_time)
    picture = inline(rendered(draw_monitor(monitor), "svg"), "stream")
    main = filled("stream.html", sentence=escaped(monitor.describe()), picture=picture, rows=rows)
    return framed(
        Page(
            title="Along the stream",
            lead=escaped(promise),
            main=main,
            first="stream",
            skip="what the monitor says",
            footer="This page is one file: it loads nothing and sends nothing.",
            css=asset("page.css"),
            js="",
            data="{}",
        )
    )
