"""The table of metrics in the terminal."""

import io

import rich.console

import pippin
from pippin.cli.printing import metrics_table


def test_singleton_accuracy_is_in_a_table_of_80_characters():
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, ["ip", "margin"], splits=3)
    text, summary = io.StringIO(), comparison.summary()
    rich.console.Console(file=text, width=80).print(metrics_table("score", comparison.scores, summary))
    mean, deviation = summary["singleton_accuracy"][1], summary["singleton_accuracy_sd"][1]
    [line] = [line for line in text.getvalue().splitlines() if line.startswith("│ margin")]
    assert line.endswith(f"│ {mean:.1%} ± {deviation:.1%} │")
