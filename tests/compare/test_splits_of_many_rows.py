"""Splits of very many rows: every choice as likely, and counted to the last bit as those of few."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import pippin
from pippin._compare import comparison, counted, many_rows, splits
from pippin._compare.comparison import measure
from pippin._compare.methods import parse_methods
from pippin._compare.splits import choose_of_many, split_generator, u_in_blocks
from support.engines import plain
from support.rows import KINDS, made_rows
from support.scores import EVERY_SCORE, every_score
from support.trials import trial_of


@pytest.mark.parametrize(("n", "size"), [(6, 3), (6, 1), (7, 5)])
def test_every_choice_is_as_likely(n, size):
    """χ² of how often each set of rows was chosen, in 20,000 draws, against that of the uniform law."""
    draws, every = 20_000, list(combinations(range(n), size))
    generator = np.random.default_rng(1)
    seen = Counter(tuple(np.flatnonzero(choose_of_many(n, size, generator)).tolist()) for _ in range(draws))
    assert set(seen) == set(every)
    mean, freedom = draws / len(every), len(every) - 1
    statistic = sum((seen[one] - mean) ** 2 / mean for one in every)
    assert abs(statistic - freedom) < 4 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("share", [0.001, 0.45, 0.999])
def test_choices_have_their_size_and_their_law(share):
    """Of 300,000 rows exactly so many; those in the first third are hypergeometric, in mean and variance."""
    n, size, third = 300_000, round(share * 300_000), 100_000
    chosen = [choose_of_many(n, size, split_generator(0, index)) for index in range(200)]
    assert {int(one.sum()) for one in chosen} == {size}
    counts = np.array([one[:third].sum() for one in chosen])
    mean = size * third / n
    variance = mean * (1 - third / n) * (n - size) / (n - 1)
    assert abs(counts.mean() - mean) < 4 * np.sqrt(variance / 200)
    assert abs(counts.var(ddof=1) / variance - 1) < 4 * np.sqrt(2 / 199)


def test_u_in_blocks_is_u_at_once(monkeypatch):
    """Who calibrates has the first numbers, in row order, whatever the blocks."""
    monkeypatch.setattr(splits, "BLOCK", 64)
    calibration = choose_of_many(1000, 450, split_generator(0, 0))
    wanted = np.empty(1000)
    plain.deal(calibration, split_generator(0, 1).random(1000), wanted)
    found = [(start, u.copy()) for start, u in u_in_blocks(split_generator(0, 1), calibration)]
    assert [start for start, _ in found] == list(range(0, 1000, 64))
    assert np.array_equal(np.concatenate([u for _, u in found]), wanted)


@pytest.fixture
def in_small_blocks(monkeypatch):
    for module in (splits, many_rows):
        monkeypatch.setattr(module, "BLOCK", 128)


@pytest.mark.usefixtures("in_small_blocks")
@pytest.mark.filterwarnings("ignore:.*(too few|infinite score):UserWarning")
@pytest.mark.parametrize("spread", [0, 0.5, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_are_counted_like_few(kind, spread, monkeypatch):
    """Every score, ties, zeros, infinite thresholds, and thresholds that nobody prepared for."""
    monkeypatch.setattr(counted, "SPREAD", spread)
    rng, methods = np.random.default_rng(KINDS.index(kind)), parse_methods(EVERY_SCORE)
    for n, n_classes, alpha, fraction in (
        (700, 7, 0.2, 0.45),
        (300, 2, 0.3, 0.6),
        (260, 30, 0.05, 0.5),
        (200, 4, 0.001, 0.5),
    ):
        probs = made_rows(kind, n, n_classes, n)
        labels = np.where(rng.random(n) < 0.6, probs.argmax(axis=1), rng.integers(0, n_classes, n))
        trial = trial_of(probs, labels, alpha, seed=3, fraction=fraction)
        wanted = measure(trial, methods, 5)
        with monkeypatch.context() as patched:
            patched.setattr(comparison, "MANY_COUNTED", 0)
            assert np.array_equal(measure(trial, methods, 5), wanted)


@every_score
@pytest.mark.usefixtures("in_small_blocks")
def test_many_rows_are_counted_exactly(score, monkeypatch):
    """With splits drawn as of many rows: what `calibrate` and `predict` give with the split's generator."""
    monkeypatch.setattr(splits, "MANY", 0)
    monkeypatch.setattr(comparison, "MANY_COUNTED", 0)
    data = pippin.load_example()
    values = pippin.compare(data.probs, data.labels, [score], splits=3, seed=5).values[0]
    for index, found in enumerate(values):
        generator = split_generator(5, index)
        inner = choose_of_many(len(data.labels), round(0.45 * len(data.labels)), generator)
        predictor = pippin.calibrate(data.probs[inner], data.labels[inner], score, 0.1, seed=generator)
        told = pippin.evaluate(predictor.predict(data.probs[~inner], seed=generator), data.labels[~inner])
        wanted = predictor.threshold, told.coverage, told.efficiency, told.informativeness, told.empty_rate
        assert np.array_equal(found, wanted)


@pytest.mark.usefixtures("in_small_blocks")
def test_neither_threads_nor_numbers_nor_places_matter(monkeypatch, tmp_path):
    """The same table on any number of threads, for more splits or other scores, in memory and past it."""
    monkeypatch.setattr(splits, "MANY", 0)
    monkeypatch.setattr(comparison, "MANY_COUNTED", 0)
    data = pippin.load_example()
    names = ("ip", "aps", "raps", "pip per class", "repip")
    wanted = pippin.compare(data.probs, data.labels, names, splits=6).values
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "1")
    assert np.array_equal(pippin.compare(data.probs, data.labels, names, splits=6).values, wanted, equal_nan=True)
    on_disk = np.memmap(tmp_path / "probs", data.probs.dtype, "w+", shape=data.probs.shape)
    on_disk[:] = data.probs
    assert np.array_equal(pippin.compare(on_disk, data.labels, ["aps", "ip"], splits=3).values, wanted[[1, 0], :3])
