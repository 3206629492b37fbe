"""The benchmark runs on small cases with every peer, and the tables of the performance page come from its figures."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pippin

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "benchmarks" / "bench.py"


@pytest.fixture(scope="module")
def page():
    """The script that writes the performance page, as a dictionary of its names."""
    return runpy.run_path(str(ROOT / "benchmarks" / "performance_page.py"))


def test_help_of_the_script():
    done = subprocess.run([sys.executable, BENCH, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Measure pippin and its peers." in done.stdout


def test_quick_benchmark_measures_every_case_and_peer(page, tmp_path, monkeypatch, capsys):
    """`bench.py --quick` finds all peers, and its figures are positive and fill every table but that of large runs."""
    out = tmp_path / "bench.json"
    data = tmp_path / "own.npz"
    example = pippin.load_example()
    np.savez(data, logits=np.log(example.probs[:300] + 1e-9), labels=example.labels[:300])
    monkeypatch.setattr(sys, "argv", [str(BENCH), "--quick", "--data", str(data), "--out", str(out)])
    monkeypatch.syspath_prepend(BENCH.parent)
    runpy.run_path(str(BENCH), run_name="__main__")
    figures = json.loads(out.read_text())
    assert set(figures["versions"]) == {"mapie", "torchcp", "crepes"}
    assert [len(case["rivals"]) for case in figures["peers"]] == [10, 8, 8]
    assert all(row["ratio"] > 0 for case in figures["peers"] for row in case["rivals"])
    assert all(len(case["scores"]) == 7 and case["one_read"] > 0 for case in figures["matrices"])
    assert [case["classes"] for case in figures["one_row"]] == [12, 200]
    assert [case["data"] for case in figures["compare"]] == ["the example", "simulated", "simulated", "own.npz"]
    assert {row["peer"].split()[0] for row in figures["compare_peers"]["peers"]} == {"MAPIE", "TorchCP"}
    assert figures["first_call"]["from disk"]["import"] > 0
    assert figures["tables"] is None
    printed = capsys.readouterr().out
    for name, table in page["tables"](figures).items():
        assert f"## {name}\n\n{table}" in printed
        assert name == "not-faster" or table.count("\n") >= 2 or name == "machine"


def test_tables_of_the_performance_page_are_those_of_the_json_files(page):
    text = (ROOT / "docs" / "performance.md").read_text("utf-8")
    assert page["filled"](text) == text
    named = re.findall(r"<!-- table: ([\w-]+) -->", text)
    expected = {**page["tables"](page["load"]("bench.json")), **page["gpu_tables"](page["load"]("bench-gpu.json"))}
    assert sorted(named) == sorted(expected)
