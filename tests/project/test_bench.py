"""The benchmark runs with small data, all cases and all peers."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np

import pippin

BENCH = Path(__file__).parents[2] / "benchmarks" / "bench.py"


def test_benchmark_is_a_script():
    done = subprocess.run([sys.executable, BENCH, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Times pippin beside its peers." in done.stdout


def test_quick_benchmark_has_every_case_and_peer(tmp_path, monkeypatch, capsys):
    """`bench.py --quick` finds all peers, and writes a positive ratio for each score that a peer has."""
    out = tmp_path / "bench.json"
    data = tmp_path / "own.npz"
    example = pippin.load_example()
    np.savez(data, logits=np.log(example.probs[:300] + 1e-9), labels=example.labels[:300])
    monkeypatch.setattr(sys, "argv", [str(BENCH), "--quick", "--data", str(data), "--out", str(out)])
    monkeypatch.syspath_prepend(BENCH.parent)
    runpy.run_path(str(BENCH), run_name="__main__")
    figures = json.loads(out.read_text())
    assert None not in figures["peers"].values()
    for row in figures["small"] + figures["matrix_peers"]:
        assert row["ratio"] > 0
    for case in ("matrix", "large"):
        assert len(figures[case]["scores"]) == 7
        assert figures[case]["one_read"] > 0
    for case in ("one_row_12", "one_row_1000"):
        assert all(row["ours_s"] > 0 for row in figures[case])
    for case in figures["growth_rows"] + figures["growth_classes"]:
        assert len(case["sizes"]) == len(case["seconds"]) >= 4
    assert {row["peer"].split()[0] for row in figures["splits"]["peers"]} == {"MAPIE", "TorchCP"}
    assert [(case["data"], case["classes"]) for case in figures["splits_medium"]] == [("made", 176), ("own.npz", 12)]
    assert all(case["seconds"] > 0 for case in figures["splits_medium"])
    assert all(row["ratio"] > 0 for row in figures["splits_large"]["scores"].values())
    assert {row["per"] for row in figures["conditional"]["rows"]} == {"all", "class"}
    assert figures["first_call"]["from disk"]["import"] > 0
    assert "theirs / ours" in capsys.readouterr().out
