"""A named pipe among photographs is reported or skipped, and never opened, which could block."""

import json

import pytest

from pippin.images.training.folder import list_images
from support.folders import content
from support.named_pipes import untouched_pipe
from support.we3ds_tree import IMAGES, MASKS, SMALL, made_files, write_folder

pytestmark = pytest.mark.usefixtures("no_figures")

OPTIONS = "--window 32 --soil 40 --workers 1"


@pytest.mark.parametrize("among", [IMAGES, MASKS])
def test_a_pipe_among_photographs_is_named(among, call, tmp_path):
    """The other photographs are cut; with --strict it is an error."""
    folder = write_folder(tmp_path / "in", made_files(range(4), SMALL)[0])
    (folder / among / "img_00002.png").unlink()
    with untouched_pipe(folder / among / "img_00002.png"):
        code, _, err = call(f"prepare we3ds {folder} --out {tmp_path / 'out'} {OPTIONS}")
        assert (code, err) == (0, "")
        strict = call(f"prepare we3ds {folder} --out {tmp_path / 'strict'} {OPTIONS} --strict")
    skipped = json.loads((tmp_path / "out" / "prepare.json").read_text())["skipped"]
    assert [(one["file"], one["reason"]) for one in skipped] == [
        (f"{among}/img_00002.png", "cannot be read (not a regular file)")
    ]
    assert (strict[0], strict[2].count("\n"), "(not a regular file): repair or remove it" in strict[2]) == (2, 1, True)


def test_a_pipe_for_the_download(call, tmp_path):
    with untouched_pipe(tmp_path / "WE3DS.zip") as path:
        code, _, err = call(f"prepare we3ds {path} --out {tmp_path / 'out'}")
    assert (code, err) == (
        2,
        f"pippin: Expected the WE3DS folder or zip file, but {path} is neither: check the path.\n",
    )
    assert not (tmp_path / "out").exists()


def test_a_pipe_in_the_place_of_a_window(call, photographs, tmp_path):
    """The pipe is replaced, like a damaged window."""
    line = f"prepare we3ds {photographs[0]} --out {tmp_path / 'out'} {OPTIONS}"
    assert call(line)[0] == 0
    before = content(tmp_path / "out")
    window = next(path for path in sorted((tmp_path / "out").rglob("*.png")) if path.parent != tmp_path / "out")
    window.unlink()
    with untouched_pipe(tmp_path / "pipe") as pipe:
        window.hardlink_to(pipe)
        assert call(line)[0] == 0
    assert content(tmp_path / "out") == before


def test_a_pipe_among_images_to_train_on_is_passed_over(images, tmp_path):
    """A pipe among training images is skipped, like other files that are no images."""
    found = list_images(images)
    name = found.files[0].rsplit("/", 1)[0]
    with untouched_pipe(images / name / "pipe.png") as path:
        assert list_images(images).files == found.files
        assert list_images(images).checksum() == found.checksum()
    path.unlink()
