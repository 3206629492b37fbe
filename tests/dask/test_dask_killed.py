"""Workers are killed -9, every one of them, and nobody can tell from the bits."""

from pathlib import Path

import pytest

import pippin
import pippin.dask
from pippin.dask import calling, watching
from support.dask_rows import LABELS, PROBS, divided, words_in_small_pieces
from support.workers import Killing, forks, workers_by_hand

pytestmark = pytest.mark.filterwarnings("ignore")  # what Dask says of lost workers


@pytest.fixture(scope="module")
def processes():
    with forks() as made:
        yield made


def test_every_worker_is_killed_in_the_rounds(processes, tmp_path, monkeypatch):
    """One at the first question of each round, with all the scores that it held: first both that made them."""
    rounds = []
    total = calling.Calibration.merged

    def merged(self, ask):
        def killing(question):
            rounds.append(type(question).__name__)
            if len(rounds) < 3:
                cluster.join()
            return ask(Killing(question, cluster.victim(), tmp_path / f"round {len(rounds)}"))

        return total(self, killing)

    monkeypatch.setattr(calling.Calibration, "merged", merged)
    monkeypatch.setattr(
        calling.Calibration.__init__, "__kwdefaults__", {"per": None, "unseen": "error", "seed": None, "most_scores": 0}
    )
    with workers_by_hand(processes) as cluster:
        cluster.join()
        cluster.join()
        found = pippin.dask.calibrate(divided(PROBS), divided(LABELS), "aps", seed=3)
        assert len(cluster.client.scheduler_info(n_workers=-1)["workers"]) == 1
    monkeypatch.undo()
    assert found.content(scores=False) == pippin.calibrate(PROBS, LABELS, "aps", seed=3).content(scores=False)
    assert rounds == ["Counting", "Round", "Search"]
    assert {path.name for path in tmp_path.iterdir()} == {"round 1", "round 2", "round 3"}


def test_every_worker_is_killed_while_sets_are_written(processes, tmp_path, monkeypatch, call):
    """The file of one machine, to the last byte."""
    words = words_in_small_pieces(tmp_path, monkeypatch, call)
    call(f"{words} here.csv")
    in_order = watching.in_order

    def killing(*given):
        for number, made in enumerate(in_order(*given)):
            if number == 2:
                cluster.join()
            if number in (2, 6):
                cluster.kill()
            yield made

    monkeypatch.setattr(watching, "in_order", killing)
    with workers_by_hand(processes) as cluster:
        cluster.join()
        cluster.join()
        code, _, err = call(f"{words} far.csv --scheduler {cluster.client.scheduler.address}")
        assert (code, err) == (0, "")
        assert len(cluster.killed) == 2
    assert Path("far.csv").read_bytes() == Path("here.csv").read_bytes()
