"""Results are the same to the last bit after every worker of a cluster was killed by SIGKILL."""

from pathlib import Path

import pytest

import pippin
import pippin.dask
from pippin.dask import api, partitions
from support.dask_rows import LABELS, PROBS, divided, predict_command_in_small_parts
from support.dask_workers import Killing, forks, workers_by_hand

pytestmark = pytest.mark.filterwarnings("ignore")  # what Dask says of lost workers


@pytest.fixture(scope="module")
def processes():
    with forks() as made:
        yield made


def test_workers_killed_during_calibration(processes, tmp_path, monkeypatch):
    """The predictor is correct if a worker is killed at its first partition, and the other when it holds all scores."""
    registering, as_completed = api.registering, partitions.as_completed

    def killing(work):
        return Killing(registering(work), cluster.victim(), tmp_path / "scoring")

    def killed_at_the_end(futures):
        yield from as_completed(futures)
        if (tmp_path / "scoring").exists():  # not where rows were only counted
            cluster.join()
            cluster.kill()

    monkeypatch.setattr(api, "registering", killing)
    monkeypatch.setattr(partitions, "as_completed", killed_at_the_end)
    with workers_by_hand(processes) as cluster:
        cluster.join()
        cluster.join()
        found = pippin.dask.calibrate(divided(PROBS), divided(LABELS), "aps", seed=3)
        assert len(cluster.client.scheduler_info(n_workers=-1)["workers"]) == 1
        assert len(cluster.killed) == 2
    assert found.content() == pippin.calibrate(PROBS, LABELS, "aps", seed=3).content()
    assert [path.name for path in tmp_path.iterdir()] == ["scoring"]


def test_workers_killed_while_sets_are_written(processes, tmp_path, monkeypatch, call):
    """The file equals that of one process, to the last byte."""
    words = predict_command_in_small_parts(tmp_path, monkeypatch, call)
    call(f"{words} here.csv")
    in_order = partitions.in_order

    def killing(*given):
        for number, made in enumerate(in_order(*given)):
            if number == 2:
                cluster.join()
            if number in (2, 6):
                cluster.kill()
            yield made

    monkeypatch.setattr(partitions, "in_order", killing)
    with workers_by_hand(processes) as cluster:
        cluster.join()
        cluster.join()
        code, _, err = call(f"{words} far.csv --scheduler {cluster.client.scheduler.address}")
        assert (code, err) == (0, "")
        assert len(cluster.killed) == 2
    assert Path("far.csv").read_bytes() == Path("here.csv").read_bytes()
