"""Files of Mondrian predictors: restored to the last bit, and inconsistent entries raise."""

import numpy as np
import pytest

import pippin
from pippin._conformal.predictor import mondrian_of
from pippin._conformal.serialization import parse_file, write_file
from support.grouped_example import calibrated, every_way, sets_of


@every_way
@pytest.mark.parametrize("score", ["pip", "aps", "socop"])
def test_saved_and_loaded_to_the_last_bit(per, score, tmp_path):
    """Numbers, sets and other levels are equal; without scores there is one level."""
    predictor = calibrated(per, score)
    predictor.save(tmp_path / "whole.json")
    predictor.save(tmp_path / "lean.json", scores=False)
    whole, lean = pippin.load(tmp_path / "whole.json"), pippin.load(tmp_path / "lean.json")
    for again in (whole, lean):
        assert np.array_equal(again.thresholds, predictor.thresholds)
        assert (again.rank_limits is None) == (per != "rc3p")
        assert per != "rc3p" or np.array_equal(again.rank_limits, predictor.rank_limits)
        assert (again.score, again.per, again.alpha) == (predictor.score, per, 0.1)
        assert (again.classes, again.groups) == (predictor.classes, predictor.groups)
        assert again.n_calibration == predictor.n_calibration
        assert np.array_equal(sets_of(again).members, sets_of(predictor).members)
        assert again.table().equals(predictor.table())
        assert repr(again) == repr(predictor)
    assert np.array_equal(mondrian_of(whole).categories.scores, mondrian_of(predictor).categories.scores)
    assert np.array_equal(whole.at(0.3).thresholds, predictor.at(0.3).thresholds)
    assert np.array_equal(sets_of(whole.at(0.3)).members, sets_of(predictor.at(0.3)).members)
    with pytest.raises(ValueError, match=r"saved without its calibration scores, so it has only alpha=0\.1"):
        lean.at(0.3)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("per", "species"),
        ("per", "group"),
        ("alpha", 1.5),
        ("thresholds", [[0.5, 0.5]]),
        ("rank_limits", [[1] * 12]),
        ("cells", [[99] * 12]),
        ("cell_counts", [3]),
        ("groups", ["a", "a"]),
        ("calibration_ranks", [1]),
        ("classes", ["maize"] * 12),
        ("cells", [[0.5] * 12]),
        ("cells", [[10**12] * 12]),
        ("calibration_scores", [1.0 - i / 2000 for i in range(2000)]),
        ("calibration_scores", ["nan"] * 2000),
        ("calibration_scores", ["many"] * 2000),
        ("calibration_scores", [10**400] * 2000),
    ],
)
def test_a_file_with_inconsistent_entries_raises(tmp_path, part, value):
    """A file with inconsistent Mondrian categories raises, even if its checksum is correct."""
    path = tmp_path / "predictor.json"
    calibrated("class").save(path)
    write_file(path, {**parse_file(path.read_bytes(), path), part: value})
    with pytest.raises(ValueError, match=r"holds no sound predictor \(.*\): calibrate again and save\."):
        pippin.load(path)


def test_a_file_of_rc3p_has_ranks_and_scores(tmp_path):
    """A file of an RC3P predictor has the ranks and the scores that other levels need."""
    path = tmp_path / "predictor.json"
    calibrated("rc3p").save(path)
    content = parse_file(path.read_bytes(), path)
    for ranks in (None, [0] * 2000):
        write_file(path, {**content, "calibration_ranks": ranks})
        with pytest.raises(ValueError, match="its calibration_ranks makes no sense"):
            pippin.load(path)


@pytest.mark.parametrize("kind", [[], {}, "marginal"])
def test_a_file_of_an_unknown_kind_raises(kind, tmp_path):
    """Unknown and invalid kinds raise."""
    path = tmp_path / "predictor.json"
    write_file(path, {"kind": kind})
    with pytest.raises(ValueError, match="holds an object of the unknown kind"):
        pippin.load(path)
