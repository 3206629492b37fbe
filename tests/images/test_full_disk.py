"""A full disk while photographs are cut or a network is saved: one error message, no temporary file."""

import numpy as np
import pytest

from pippin.images.training.folder import TrainingRecord
from pippin.images.training.network import make_network
from support.full_disk import files_of_at_most
from support.synthetic_images import CLASSES

TRAINING = TrainingRecord(tuple(CLASSES), (), np.array([""]), np.zeros((1, 4), np.float32), np.zeros(1, np.int64))


@pytest.mark.parametrize(("size", "workers"), [(20, 1), (2000, 1), (2000, 2)])
def test_while_photographs_are_cut(size, workers, photographs, call, tmp_path, no_figures):
    """A later run with free space resumes."""
    line = f"prepare we3ds {photographs[0]} --out {tmp_path / 'out'} --window 32 --soil 40 --workers {workers}"
    with files_of_at_most(size):
        code, _, err = call(line)
    assert (code, err.count("\n")) == (2, 1)
    assert f"pippin: Cannot write {tmp_path / 'out'}/" in err
    assert err.endswith(" (File too large): free some space, or choose another place.\n")
    assert list(tmp_path.rglob("*.tmp")) == []
    assert call(line)[0] == 0


def test_while_a_network_is_saved(tiny, tmp_path):
    """Earlier weights are kept, or none are written."""
    network = make_network(str(tiny), tuple(CLASSES), 24, 0)
    reported = r"Cannot write .*weights \(.*\): (free some space, or )?choose another place\."
    with files_of_at_most(1000), pytest.raises(OSError, match=reported):
        network.save(tmp_path / "weights", 24, TRAINING)
    assert list(tmp_path.iterdir()) == []
    network.save(tmp_path / "weights", 24, TRAINING)
    before = sorted(path.name for path in (tmp_path / "weights").iterdir())
    with files_of_at_most(1000), pytest.raises(OSError, match=reported):
        network.save(tmp_path / "weights", 24, TRAINING)
    assert sorted(path.name for path in (tmp_path / "weights").iterdir()) == before
