"""Watched folders: files that are written in pieces, drafts, reused names, damaged files, and ends of a watch."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import pippin
from pippin.images import FieldModel
from pippin.images.arrivals import RECENT, RECHECKED, Arrivals, is_whole
from support.small_field import make_parts, photograph

pytestmark = pytest.mark.usefixtures("one_thread")

SETTLE = 5.0


@pytest.fixture(scope="module")
def model(images, tiny, tmp_path_factory):
    folder = make_parts(images, tiny, tmp_path_factory.mktemp("field") / "run")
    made = FieldModel.make(folder / "weights", folder / "predictor.json", decider=folder / "decider.json", window=24)
    made.with_onnx().save(folder / "MODEL")
    return folder / "MODEL"


def encoded(seed, form="PNG"):
    buffer = io.BytesIO()
    Image.fromarray(photograph(seed)).save(buffer, form)
    return buffer.getvalue()


def listed(files):
    return [(path.name, final) for path, final in files]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP"])
def test_only_whole_files_have_their_end(form):
    content = encoded(1, form)
    assert is_whole(content)
    assert not any(is_whole(content[:cut]) for cut in range(len(content)))


def test_a_file_of_unknown_end_is_not_whole():
    assert not is_whole(encoded(1, "TIFF"))


def test_a_file_is_due_once_it_is_unchanged_and_again_after_the_settle_time(tmp_path):
    arrivals, file = Arrivals(tmp_path, SETTLE), tmp_path / "a.png"
    file.write_bytes(b"first")
    assert listed(arrivals.due(0.0)) == []
    assert listed(arrivals.due(0.1)) == [("a.png", False)]
    assert listed(arrivals.due(0.2)) == []
    file.write_bytes(b"first second")
    assert listed(arrivals.due(4.0)) == []
    assert listed(arrivals.due(4.1)) == [("a.png", False)]
    assert listed(arrivals.due(4.0 + SETTLE)) == [("a.png", True)]
    arrivals.done(file)
    assert listed(arrivals.due(100.0)) == []


def test_drafts_hidden_and_removed_files_are_not_due(tmp_path):
    for name in ("a.jpg.part", "b.tmp.png", ".c.png", "notes.txt", "d.png", "more/e.JPG", ".trash/f.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    arrivals = Arrivals(tmp_path, SETTLE)
    arrivals.due(0.0)
    arrivals.due(0.1)
    (tmp_path / "d.png").unlink()
    assert listed(arrivals.due(SETTLE + 1)) == [("e.JPG", True)]
    (tmp_path / "a.jpg.part").rename(tmp_path / "a.jpg")
    arrivals.due(SETTLE + 2)
    assert ("a.jpg", False) in listed(arrivals.due(SETTLE + 2.1))


def test_a_folder_that_is_written_to_in_place_is_noticed(tmp_path):
    """Writing into an existing file changes no folder; new names within the resolution of the time are found too."""
    arrivals, file = Arrivals(tmp_path, SETTLE), tmp_path / "a.png"
    file.write_bytes(b"one")
    before = os.stat(tmp_path)
    for now in (0.0, 0.1):
        arrivals.due(now)
    arrivals.done(file)
    (tmp_path / "b.png").write_bytes(b"two")
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as if both were written in one clock tick
    arrivals.due(RECENT / 2)
    assert listed(arrivals.due(RECENT / 2 + 0.1)) == [("b.png", False)]
    arrivals.done(tmp_path / "b.png")
    file.write_bytes(b"another")
    assert [listed(arrivals.due(50.0 + step / 10)) for step in range(4)].count([("a.png", False)]) == 1


def test_a_scan_without_arrivals_reads_few_files(tmp_path, monkeypatch):
    """The number of calls to the file system is bounded, however many files have been processed."""
    for number in range(3 * RECHECKED):
        (tmp_path / f"{number}.png").write_bytes(b"content")
    arrivals = Arrivals(tmp_path, SETTLE)
    arrivals.due(0.0)
    for path, _ in arrivals.due(0.1):
        arrivals.done(path)
    arrivals.due(RECENT + 1)
    calls, stat = [], os.stat
    monkeypatch.setattr(os, "stat", lambda *given, **named: calls.append(given) or stat(*given, **named))
    monkeypatch.setattr(os, "scandir", lambda *_: pytest.fail("the folder has not changed"))
    for step in range(6):
        calls.clear()
        arrivals.due(RECENT + 2 + step / 10)
        assert len(calls) <= RECHECKED + 1


# The command


def watching(model, folder, out, *more):
    """Start a watch of a folder as a process, without monitor unless --delta is given."""
    line = ["field", "run", str(model), "--watch", str(folder), "--out", str(out)]
    line += ["--runtime", "onnxruntime"]  # starts faster than torch
    line += [] if "--delta" in more else ["--no-monitor"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "pippin.cli", *line, *more], **options)


def arrive(folder, name, seed):
    """Write a photograph under a temporary name and rename it."""
    (folder / f".{name}").write_bytes(encoded(seed))
    (folder / f".{name}").rename(folder / name)


def next_line(process):
    return json.loads(process.stdout.readline())


def results(out):
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


def test_photographs_in_pieces_are_read_once_when_they_are_complete(model, tmp_path):
    """Between the pieces, photographs that arrive later are reported, so the first piece has been looked at."""
    folder, pieces = tmp_path / "in", 4
    folder.mkdir()
    contents = {"slow.jpg": encoded(1, "JPEG"), "slow.png": encoded(2), "slow.webp": encoded(3, "WEBP")}
    with watching(model, folder, tmp_path / "out") as process:
        seen = []
        for piece in range(pieces):
            for name, content in contents.items():
                with open(folder / name, "ab") as stream:
                    stream.write(content[piece * len(content) // pieces : (piece + 1) * len(content) // pieces])
            arrive(folder, f"{piece}.png", 10 + piece)
            while not seen or seen[-1]["photo"] != f"{folder}/{piece}.png":
                seen.append(next_line(process))
        while len(seen) < pieces + len(contents):
            seen.append(next_line(process))
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate()
    assert (process.returncode, rest) == (0, "")
    assert errors.startswith("7 photographs, 42 windows: ")
    assert all("reason" not in line for line in seen)
    names = [*contents, *(f"{piece}.png" for piece in range(pieces))]
    assert sorted(line["photo"] for line in seen) == sorted(f"{folder}/{name}" for name in names)
    assert len(results(tmp_path / "out")) == 42
    assert json.loads((tmp_path / "out/run.json").read_text())["photographs"] == {"looked at": 7, "skipped": 0}
    assert (tmp_path / "out/field.html").is_file()


def test_a_reused_name_is_a_new_photograph_and_a_restart_repeats_none(model, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    with watching(model, folder, out) as process:
        arrive(folder, "a.png", 1)
        assert next_line(process)["photo"] == f"{folder}/a.png"
        arrive(folder, "a.png", 2)
        line = next_line(process)
        arrive(folder, "a.png", 1)  # the content of the first, which has results
        arrive(folder, "b.png", 3)
        assert next_line(process)["photo"] == f"{folder}/b.png"
        process.kill()
    assert line["photo"] == f"{folder}/a.png#2"
    assert line["drawn"] == "drawn/a-2.jpg"
    with watching(model, folder, out) as process:
        arrive(folder, "c.png", 4)
        assert next_line(process)["photo"] == f"{folder}/c.png"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    photos = [f"{folder}/a.png", f"{folder}/a.png#2", f"{folder}/b.png", f"{folder}/c.png"]
    assert list(dict.fromkeys(line["photo"] for line in results(out))) == photos
    loaded, lines = FieldModel.load(model, runtime="onnxruntime"), results(out)
    for number, seed in enumerate((1, 2, 3, 4)):
        records = loaded.look(photograph(seed)).records()
        assert [{"photo": photos[number], **record} for record in records] == lines[6 * number : 6 * number + 6]


def test_a_damaged_photograph_is_reported_after_the_settle_time_and_read_when_it_is_whole(model, tmp_path):
    folder, content = tmp_path / "in", encoded(5)
    folder.mkdir()
    (folder / "cut.png").write_bytes(content[:200])
    (folder / "a.heic").write_bytes(b"content")
    with watching(model, folder, tmp_path / "out", "--settle", "0.1") as process:
        lines = [next_line(process), next_line(process)]
        assert {line["photo"]: line["reason"] for line in lines} == {
            f"{folder}/cut.png": f"{folder}/cut.png is damaged or no image",
            f"{folder}/a.heic": f"{folder}/a.heic has the ending .heic, of a format that is not read",
        }
        (folder / "cut.png").write_bytes(content)
        line = next_line(process)
        assert (line["photo"], len(line["windows"])) == (f"{folder}/cut.png", 6)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert len(results(tmp_path / "out")) == 6


def test_a_watch_started_in_the_background_of_a_script_ends_with_sigint(model, tmp_path):
    """A shell without job control starts such processes with SIGINT ignored."""
    (tmp_path / "in").mkdir()
    arrive(tmp_path / "in", "a.png", 1)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = watching(model, tmp_path / "in", tmp_path / "out")
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert next_line(process)["photo"] == f"{tmp_path}/in/a.png"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert len(results(tmp_path / "out")) == 6


def test_a_closed_standard_output_ends_the_watch_with_a_word_and_the_results(model, tmp_path):
    (tmp_path / "in").mkdir()
    with watching(model, tmp_path / "in", tmp_path / "out") as process:
        arrive(tmp_path / "in", "a.png", 1)
        next_line(process)
        process.stdout.close()
        arrive(tmp_path / "in", "b.png", 2)
        errors = process.stderr.read()
        assert process.wait() == 1
    assert "pippin: nothing reads standard output any longer, so the run ends; the results are saved." in errors
    assert len(results(tmp_path / "out")) == 12


def test_kills_while_pieces_arrive_lose_and_repeat_nothing(model, tmp_path):
    """If each process is killed after a line, while a photograph is half written, none is lost or repeated."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    rng, lines = np.random.default_rng(0), []
    for number in range(4):
        content = encoded(number, "JPEG")
        cut = int(rng.integers(3, len(content)))
        (folder / f"slow{number}.jpg").write_bytes(content[:cut])
        with watching(model, folder, out) as process:
            arrive(folder, f"{number}.png", 10 + number)
            while not lines or lines[-1]["photo"] != f"{folder}/{number}.png":
                lines.append(next_line(process))
            with open(folder / f"slow{number}.jpg", "ab") as stream:
                stream.write(content[cut:])
            process.kill()
    with watching(model, folder, out) as process:
        while len(lines) < 8:
            lines.append(next_line(process))
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert len({line["photo"] for line in lines}) == 8
    assert len(results(out)) == 48


def test_after_an_alarm_all_actions_are_careful_also_after_a_restart(model, tmp_path):
    """Actions for normal photographs are careful after an alarm, also after a restart; the state is in the results."""
    folder = tmp_path / "in"
    folder.mkdir()
    options = ["--delta", "0.5", "--no-draw"]
    frame = np.zeros((24, 24, 3), np.uint8)
    with watching(model, folder, tmp_path / "out", *options) as process:
        lines = []
        for number in range(200):
            frame[0, 0, 0] = number
            Image.fromarray(frame).save(folder / f".{number}.png")
            (folder / f".{number}.png").rename(folder / f"{number}.png")
            lines.append(next_line(process))
            if "alarm" in lines[-1]:
                break
        assert next_line(process)["windows"][0]["careful"] == "alarm"
        process.kill()
    assert "the rows have changed" in lines[-1]["message"]
    assert {line["windows"][0]["careful"] for line in lines[:-1]} == {None}
    with watching(model, folder, tmp_path / "out", *options) as process:
        arrive(folder, "plants.png", 1)
        windows = next_line(process)["windows"]
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert {(window["action"], window["careful"]) for window in windows} == {("ask", "alarm")}
    assert json.loads((tmp_path / "out/run.json").read_text())["careful"] == {"alarm": 7}
    assert pippin.load(tmp_path / "out/monitor.json").n_alarms == 1
