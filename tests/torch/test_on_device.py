"""Calibration where the logits are: by kernels, run by Triton's interpreter, and by torch alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import pippin
from pippin._engine.plain import engine as plain
from pippin._predictors.grouping import Grouping
from pippin._theory.scores import coefficients
from pippin.torch.kernels import filled
from pippin.torch.scoring import Scoring
from pippin.torch.selecting import one_threshold, several_thresholds
from support.on_device import labels_at_any_rank
from support.rows import KINDS, made_rows
from support.scores import every_score

ROOT = Path(__file__).parents[2]


def test_kernels_have_the_cores_bits():
    """Thresholds, scores and sets from the kernels themselves, few classes and many, logits and probabilities."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
    told = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    run = subprocess.run([sys.executable, "-m", "support.on_device"], env=told, capture_output=True, text=True)
    assert json.loads(run.stdout.splitlines()[-1]) == {"kernels": True, "cases": 19, "differ": {}}


def test_numbers_that_are_zero_are_nobody_elses(monkeypatch):
    """Even behind the last that were cleared together; and those of a CUDA graph are cleared by the graph."""
    x = torch.zeros(1)
    taken = [filled.zeros(x) for _ in range(130)]
    for numbers in taken:
        assert not numbers.any()
        numbers += 1
    ready = [numbers.data_ptr() for numbers in filled.ZEROS[-1, 0]]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    on_a_gpu = SimpleNamespace(is_cuda=True, device="cpu")
    assert filled.zeros(on_a_gpu).data_ptr() not in ready
    assert [numbers.data_ptr() for numbers in filled.ZEROS[-1, 0]] == ready


def test_room_for_rows_that_are_left_is_nobody_elses(monkeypatch):
    """It is taken by one at a time, with its other count, and only if it is large enough; a CUDA graph has its own."""
    monkeypatch.setattr(filled, "SPARE", {})
    x = torch.zeros(5, 2)
    one, other = filled.room_for_left(x), filled.room_for_left(x)
    assert one is not other
    filled.give_back(one, x)
    assert filled.room_for_left(torch.zeros(6, 2)) is not one
    filled.give_back(other, x)
    monkeypatch.setattr(filled, "capturing", lambda x: True)
    captured = filled.room_for_left(x)
    filled.give_back(captured, x)
    monkeypatch.setattr(filled, "capturing", lambda x: False)
    assert filled.room_for_left(x) is other
    assert other.turn == 1
    assert captured.turn == 0


@every_score
def test_torch_alone_scores_labels_as_the_core(score):
    """Short and long ranks, in two batches; u goes on from the first to the second."""
    for n_classes in (3, 150):
        probs = np.concatenate([made_rows(kind, 12, n_classes, 1) for kind in KINDS])
        labels = labels_at_any_rank(probs, np.random.default_rng(0))
        scoring = Scoring(score, 5, logits=False, classes=None)
        for part in (slice(0, 30), slice(30, None)):
            scoring.add(torch.from_numpy(probs[part]), torch.from_numpy(labels[part]))
        u = np.random.default_rng(5).random(len(probs)) if score.randomized else np.zeros(len(probs))
        wanted = np.empty(len(probs))
        plain.label_scores(probs, labels, coefficients(score, n_classes), u, wanted)
        np.testing.assert_array_equal(scoring.all().scores.numpy(), wanted)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("per", [None, "class", "group", "class and group", "cluster", "rc3p", {"0": "a", "1": "b"}])
@pytest.mark.filterwarnings("ignore")
def test_thresholds_of_every_kind(per, keep):
    """Those of the core, whatever they are per, with the scores kept or not."""
    data = pippin.load_example()
    if isinstance(per, dict):
        per = {k: "ab"[k % 2] for k in range(12)}
    groups = np.arange(len(data.labels)) % 3 if isinstance(per, str) and "group" in per else None
    unseen = "error" if groups is None else "marginal"
    wanted = pippin.calibrate(data.probs, data.labels, "repip", seed=3, per=per, groups=groups, unseen=unseen)
    scoring = Scoring(pippin.repip(), 3, logits=False, classes=None)
    scoring.add(torch.tensor(data.probs), torch.tensor(data.labels))
    scored = scoring.all()
    if per is None:
        found = one_threshold(scored, pippin.repip(), 0.1, range(12), keep)
        assert found.threshold == wanted.threshold
        kept, known = found.scores, wanted.scores
    else:
        grouping = Grouping(per, groups, unseen)
        found = several_thresholds(scored, pippin.repip(), 0.1, range(12), grouping, scoring.generator, keep)
        np.testing.assert_array_equal(found.thresholds, wanted.thresholds)
        np.testing.assert_array_equal(found.cells.offsets, wanted.cells.offsets)
        kept, known = found.cells.scores, wanted.cells.scores
    assert kept is None if not keep else np.array_equal(kept, known)
    assert repr(found) == repr(wanted)


def test_faults_are_told_as_by_the_core():
    """The row counts from the first batch; a label that is no class is named."""
    good = torch.full((4, 5), 0.2)
    bad = good.clone()
    bad[2, 1] = 0.9
    scoring = Scoring(pippin.ip(), None, logits=False, classes=None)
    scoring.add(good, torch.zeros(4, dtype=torch.int64))
    with pytest.raises(pippin.InputError, match=r"Row 6 sums to 1\.7"):
        scoring.add(bad, torch.zeros(4, dtype=torch.int64))
    with pytest.raises(pippin.InputError, match="label 5"):
        scoring.add(good, torch.tensor([0, 1, 5, 2]))
    with pytest.raises(pippin.InputError, match="Row 5 has nan"):
        Scoring(pippin.ip(), None, logits=True, classes=None).add(
            torch.tensor([[1.0, 2.0]] * 5 + [[torch.nan, 1.0]]), torch.zeros(6, dtype=torch.int64)
        )
