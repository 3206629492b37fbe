"""`pippin prepare`: counts, labels and pixels equal those of a slow implementation; selection of windows."""

import json
import zipfile
from collections import Counter

import numpy as np
import polars
import pytest
from PIL import Image

from pippin.cli.report.windows import write_windows
from pippin.images.prepare import prepare_we3ds
from pippin.images.we3ds import RARE, mask_classes
from pippin.images.windows import WindowOptions, label_windows
from support.folders import content
from support.we3ds_tree import NAMES, OPTIONS, SMALL, made_files, made_photograph, photo_name, write_folder, write_zip

CROPS = {"broad bean", "common buckwheat", "pea", "corn", "soybean", "sunflower", "sugar beet"}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Write two photographs of the original size; return (folder, masks)."""
    files, masks = made_files(range(2))
    return write_folder(tmp_path_factory.mktemp("full"), files, "WE3DS/"), masks


def slow_label(counts: Counter, rule: str) -> str | None:
    """Compute the label of a window by a slow implementation."""
    best = None
    for value in range(1, 19):
        counted = value > 1 or rule == "all"
        if counted and counts[value] > 0 and (best is None or counts[value] > counts[best]):
            best = value
    if best is None and counts[1] > 0:
        best = 1
    return None if best is None else NAMES[best]


def slow_windows(masks, window, rule):
    """Compute {(photo, row, column): (label, counts)} pixel by pixel."""
    found = {}
    for photo, mask in masks.items():
        row = 0
        while (row + 1) * window <= len(mask):
            column = 0
            while (column + 1) * window <= len(mask[0]):
                part = mask[row * window : (row + 1) * window, column * window : (column + 1) * window]
                counts = Counter(part.ravel().tolist())
                found[photo, row, column] = (slow_label(counts, rule), [counts[value] for value in range(19)])
                column += 1
            row += 1
    return found


def check_against_the_slow_rule(out, masks, options):
    """Table, counts in the record, and pixels of all windows."""
    expected = slow_windows(masks, options.window, options.label)
    table = polars.read_parquet(out / "windows.parquet")
    assert table.columns == ["file", "photo", "row", "column", "label", *NAMES]
    for file, photo, row, column, label, *counts in table.iter_rows():
        assert (label, counts) == expected[photo, row, column]
        assert file == f"{label}/{photo}_{row}_{column}.png"
    before = Counter(label for label, _ in expected.values())
    kept = {name: n for name, n in before.items() if name is not None and name not in options.drop}
    if "soil" in kept:
        kept["soil"] = min(options.soil, before["soil"])
    assert Counter(table["label"]) == Counter(kept)
    assert {str(path.relative_to(out)) for path in out.rglob("*/*.png")} == set(table["file"])
    record = json.loads((out / "prepare.json").read_text())
    assert {c["name"]: (c["before"], c["after"]) for c in record["classes"]} == {
        name: (before[name], kept.get(name, 0)) for name in NAMES[1:]
    }
    size = sum(path.stat().st_size for path in out.rglob("*/*.png"))
    written = {"written": sum(kept.values()), "bytes": size}
    assert record["windows"] == {"cut": len(expected), "all void": before[None], **written}
    side, photographs = options.window, {photo: made_photograph(mask) for photo, mask in masks.items()}
    for file, photo, row, column, *_ in table.iter_rows():
        part = photographs[photo][row * side : (row + 1) * side, column * side : (column + 1) * side]
        np.testing.assert_array_equal(np.asarray(Image.open(out / file)), part)
    return record


# Cutting and labels


def test_the_class_table_is_that_of_the_dataset():
    """The table of classes equals the one of the data set."""
    table = """void soil broad_bean corn_spurry red-root_amaranth common_buckwheat pea red_fingergrass common_wild_oat
        cornflower corn_cockle corn milk_thistle rye_brome soybean sunflower narrow-leaved_plantain
        small-flower_geranium sugar_beet"""
    assert [name.replace("_", " ") for name in table.split()] == NAMES
    assert [known.value for known in mask_classes()] == list(range(19))
    assert {known.name for known in mask_classes() if known.group == "crop"} == CROPS
    assert Counter(known.group for known in mask_classes()) == {"void": 1, "soil": 1, "crop": 7, "weed": 10}
    assert set(RARE) <= {known.name for known in mask_classes() if known.group == "weed"}


@pytest.mark.parametrize("rule", ["plant", "all"])
def test_photographs_of_the_real_size(rule, full, call, tmp_path):
    """35 windows per photograph; all windows of soil if there are fewer than requested; both figures."""
    folder, masks = full
    workers = {"plant": 1, "all": 2}[rule]
    code, printed, err = call(f"prepare we3ds {folder} --out {tmp_path / 'out'} --label {rule} --workers {workers}")
    assert (code, err) == (0, "")
    record = check_against_the_slow_rule(tmp_path / "out", masks, WindowOptions(label=rule))
    assert record["windows"]["cut"] == 35 * len(masks)
    assert record["windows"]["all void"] > 0
    assert sum(known["after"] > 0 for known in record["classes"]) <= 13
    assert all(known["after"] == 0 for known in record["classes"] if known["name"] in RARE)
    assert record["run"]["options"] == {"window": 224, "label": rule, "soil": 1500, "drop": list(RARE), "seed": 0}
    assert {"pippin-conformal", "numpy", "pillow", "polars", "python"} == set(record["versions"])
    for words in ("2 of 2 photographs gave 70 windows", "per second", "MB of memory", "cutting.png", "sugar beet"):
        assert words in printed
    for name in ("cutting.png", "cutting.svg", "counts.png", "counts.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 10_000
    assert not list((tmp_path / "out").rglob(".*"))


@pytest.mark.parametrize("rule", ["plant", "all"])
@pytest.mark.parametrize("window", [32, 47, 64, 110, 200])
@pytest.mark.parametrize("drop", [(), ("pea", "cornflower")])
def test_other_windows_and_classes(rule, window, drop, photographs, tmp_path):
    options = WindowOptions(window, rule, 7, drop, seed=5)
    prepare_we3ds(photographs[0], tmp_path, options, workers=1)
    record = check_against_the_slow_rule(tmp_path, photographs[1], options)
    assert record["windows"]["cut"] == 9 * (SMALL[0] // window) * (SMALL[1] // window)


def test_soil_can_be_dropped(photographs, tmp_path):
    options = WindowOptions(32, drop=("soil",))
    prepare_we3ds(photographs[0], tmp_path, options, workers=1)
    check_against_the_slow_rule(tmp_path, photographs[1], options)


def test_masks_with_a_palette_keep_their_values(tmp_path):
    """Palette indices are the mask values, not the grey values of the palette."""
    files, masks = made_files(range(2), SMALL, mode="P")
    prepare_we3ds(write_folder(tmp_path / "in", files), tmp_path / "out", OPTIONS, workers=1)
    check_against_the_slow_rule(tmp_path / "out", masks, OPTIONS)


def test_photographs_of_many_sizes(tmp_path):
    """Photographs of different sizes have different grids."""
    files, masks = {}, {}
    for i, size in enumerate([(64, 40), (33, 100), (32, 32)]):
        these, mask = made_files([i], size)
        files |= {name.replace(photo_name(0), f"odd_{i}_1"): data for name, data in these.items()}
        masks[f"odd_{i}_1"] = mask[photo_name(0)]
    prepare_we3ds(write_folder(tmp_path / "in", files), tmp_path / "out", OPTIONS, workers=1)
    check_against_the_slow_rule(tmp_path / "out", masks, OPTIONS)


@pytest.mark.parametrize(
    ("counts", "plant", "everything"),
    [
        ({0: 5}, "void", "void"),
        ({0: 5, 1: 1}, "soil", "soil"),
        ({0: 900, 1: 90, 6: 1}, "pea", "soil"),
        ({1: 4, 6: 3, 11: 3}, "pea", "soil"),  # ties: the lower value
        ({1: 3, 18: 3}, "sugar beet", "soil"),
        ({11: 3, 18: 3, 12: 2}, "corn", "corn"),
        ({1: 2, 18: 3, 12: 2}, "sugar beet", "sugar beet"),
        ({0: 9, 18: 1}, "sugar beet", "sugar beet"),
    ],
)
def test_labels(counts, plant, everything):
    row = np.array([counts.get(value, 0) for value in range(19)])
    assert NAMES[label_windows(row, "plant")] == plant
    assert NAMES[label_windows(row, "all")] == everything


@pytest.mark.parametrize("top", ["", "WE3DS/"])
@pytest.mark.parametrize("kind", ["folder", "stored", "packed"])
def test_zip_or_folder_gives_the_same_files(top, kind, photographs, tmp_path):
    prepare_we3ds(photographs[0], tmp_path / "expected", OPTIONS, workers=1)
    files = {name: data for name, data in content(photographs[0]).items() if name.endswith(".png")}
    if kind == "folder":
        path = write_folder(tmp_path / "in", files, top)
    else:
        method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
        path = write_zip(tmp_path / "WE3DS.zip", files, top, method)
    prepare_we3ds(path, tmp_path / "out", OPTIONS, workers=2 if kind == "packed" else 1)
    assert content(tmp_path / "out") == content(tmp_path / "expected")


# Selection of windows


def test_a_seed_draws_the_same_soil_and_another_seed_other_soil(photographs, tmp_path):
    soil = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        options, draw = WindowOptions(32, soil=20, seed=seed), None if seed else write_windows
        prepare_we3ds(photographs[0], tmp_path / name, options, workers=1, draw=draw)
        soil[name] = {path.name for path in (tmp_path / name / "soil").iterdir()}
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert soil["a"] != soil["c"]
    assert all(len(drawn) == 20 for drawn in soil.values())
    sources = {name.rsplit("_", 2)[0] for drawn in soil.values() for name in drawn}
    assert len(sources) == 9  # from everywhere


def test_every_window_of_soil_is_as_likely():
    """Over many seeds, all windows are drawn about equally often."""
    from pippin.images.windows import select_windows

    names, labels = [f"photo_{i}" for i in range(50)], np.ones(50, np.uint8)
    drawn = sum(select_windows(names, labels, WindowOptions(soil=10, seed=seed)).astype(int) for seed in range(1000))
    assert drawn.sum() == 10_000
    assert np.all(np.abs(drawn - 200) < 75)  # six standard deviations


# Figures


def test_figures_show_the_grid_and_every_class(photographs, tmp_path):
    from matplotlib.patches import Rectangle

    from pippin.cli.report.windows import class_counts, cutting

    given = []
    prepare_we3ds(
        photographs[0], tmp_path, WindowOptions(64, drop=()), workers=1, draw=lambda *seen: given.extend(seen)
    )
    _, example, record = given
    figure = cutting(example)
    frames = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    assert example.labels.shape == (3, 5)
    assert len(frames) == 15 + 2  # and what is left over
    texts = [text.get_text().replace("\n", " ") for text in figure.axes[0].texts]
    assert texts == [NAMES[value] for value in example.labels.ravel()]
    bars = class_counts(record.classes)
    for ax, key in zip(bars.axes, ("before", "after"), strict=True):
        names = [label.get_text() for label in bars.axes[0].get_yticklabels()]
        shown = dict(zip(names, (bar.get_width() for bar in ax.patches), strict=True))
        assert shown == {known["name"]: known[key] for known in record.classes}
