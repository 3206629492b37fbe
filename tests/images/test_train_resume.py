"""Interrupted training resumes after kill -9 with the same result."""

import json
import shlex

import numpy as np
import pytest

from pippin.images.training import fit, train
from support.killed_processes import NEVER, killed_with_stderr
from support.small_training import HEAVY, quiet, small_options

pytestmark = pytest.mark.usefixtures("one_thread")

EPOCHS = 5  # of a run that is killed
KEEP = "pippin.images.training.fit:_Session.save_checkpoint"


def test_a_killed_run_ends_like_one_that_was_not(images, tiny, tmp_path):
    """Killed while writing a checkpoint and after another: the final logits are the same."""
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = train(images, tmp_path / "whole/p.npz", small_options(tiny, epochs=EPOCHS), on_epoch=quiet)
    options = f"--weights {tiny} --epochs {EPOCHS} --size 24 --batch 16 --learning-rate 0.01"
    command = ["train", str(images), "--out", str(tmp_path / "killed/p.npz"), *shlex.split(options)]
    events = [("write", 2, "before"), (KEEP, 2, "after"), NEVER]
    ends, reported = killed_with_stderr(events, *command, modules=HEAVY)
    assert ends == [9, 9, 0]
    numbers = [int(line.split()[1]) for line in reported]
    assert numbers == [1, 2, 4, 5]  # the third was kept, and killed before it was reported
    record, expected = (json.loads((tmp_path / name / "train.json").read_text()) for name in ("killed", "whole"))
    assert [epoch["number"] for epoch in record["epochs"]] == list(range(1, EPOCHS + 1))
    for ours, theirs in zip(record["epochs"], expected["epochs"], strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
    with np.load(tmp_path / "killed/p.npz") as kept:
        np.testing.assert_allclose(kept["logits"], whole.logits, rtol=1e-3, atol=1e-3)
        assert kept["files"].tolist() == whole.files.tolist()
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == ["p.npz", "train.json", "weights"]


def test_a_run_stopped_while_writing_trains_nothing_anew(images, tiny, tmp_path, monkeypatch):
    reported = []
    with monkeypatch.context() as patch:
        patch.setattr(fit, "write_trained", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=reported.append)
    (tmp_path / ".train.checkpoint.pt.1-aa.tmp").touch()
    (tmp_path / ".weights.1-new.tmp").mkdir()
    found = train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=reported.append)
    assert [epoch.number for epoch in reported] == [1, 2, 3]
    assert found.epochs == tuple(reported)
    assert found.accuracy == reported[-1].accuracy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.npz", "train.json", "weights"]


def test_a_checkpoint_of_another_run_is_refused(images, tiny, tmp_path):
    def stop(epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=stop)
    with pytest.raises(ValueError, match=r"belongs to another run .*: delete it"):
        train(images, tmp_path / "p.npz", small_options(tiny, seed=1), on_epoch=quiet)
    kept = tmp_path / "train.checkpoint.pt"
    kept.write_bytes(kept.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"is no checkpoint, or is damaged: delete it to start again\."):
        train(images, tmp_path / "p.npz", small_options(tiny), on_epoch=quiet)
