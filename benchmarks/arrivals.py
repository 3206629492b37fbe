"""Watch a folder into which photographs are written in pieces with pauses, and kill the watch on the way.

python benchmarks/arrivals.py MODEL PHOTO...     # 200 files, pauses of up to 2 seconds, 2 kills
python benchmarks/arrivals.py --scan 50000       # processor time of a scan with so many processed files

A process writes the files: each is a photograph, in JPEG, PNG or WebP with a pixel of its own, cut into up to five
pieces. Eight files are written at a time. `pippin field run MODEL --watch` is killed after one and after two thirds of
the lines, started again, and ended with SIGTERM. The script counts the photographs without results, with several
lines, and with other results than `FieldModel.look` has for the complete file.
"""

import argparse
import io
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from pippin.images import FieldModel
from pippin.images.arrivals import Arrivals

FORMS = {".jpg": "JPEG", ".png": "PNG", ".webp": "WEBP"}
AT_ONCE = 8  # files that are written at a time


def encode(photo: Path, number: int, ending: str) -> bytes:
    """Encode a photograph with one pixel that depends on the number of the file."""
    with Image.open(photo) as opened:
        image = opened.convert("RGB")
    image.putpixel((0, 0), (number % 256, number // 256, 0))
    buffer = io.BytesIO()
    image.save(buffer, FORMS[ending])
    return buffer.getvalue()


def write_in_pieces(file: Path, content: bytes, longest: float, seed: int) -> None:
    """Write a file in one to five pieces, with pauses of up to `longest` seconds."""
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(content)), rng.randint(0, 4)))
    with open(file, "wb") as stream:
        for start, stop in zip([0, *cuts], [*cuts, len(content)], strict=True):
            stream.write(content[start:stop])
            stream.flush()
            if stop < len(content):
                time.sleep(rng.uniform(0, longest))


def main(model: Path, photos: list[Path], n: int, longest: float) -> int:
    """Run the trial and print the counts; return 0 if no photograph was lost or read twice."""
    with tempfile.TemporaryDirectory() as place:
        folder, out = Path(place) / "in", Path(place) / "out"
        folder.mkdir()
        endings = list(FORMS)
        files = {
            folder / f"{i:04}{endings[i % len(endings)]}": encode(photos[i % len(photos)], i, endings[i % len(endings)])
            for i in range(n)
        }
        command = [sys.executable, "-m", "pippin.cli", "field", "run", str(model), "--watch", str(folder)]
        command += ["--out", str(out), "--no-monitor"]
        lines: list[dict] = []

        def write() -> None:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for number, (file, content) in enumerate(files.items()):
                    pool.submit(write_in_pieces, file, content, longest, number)

        writer = threading.Thread(target=write)
        writer.start()
        kills = [n // 3, 2 * n // 3]
        while True:
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                for line in process.stdout:
                    lines.append(json.loads(line))
                    if kills and len(lines) >= kills[0]:
                        break
                    with open(out / ".field.journal") as journal:
                        processed = sum(1 for _ in journal) - 1
                    if processed >= n:  # a photograph may be in the journal without a line, after a kill
                        process.send_signal(signal.SIGTERM)
                        process.wait()
                if kills:
                    kills.pop(0)
                    process.kill()
                    lines += [json.loads(line) for line in process.stdout if line.endswith("\n")]
                    continue
            break
        writer.join()
        rows = [json.loads(row) for row in (out / "results.jsonl").read_text().splitlines()]
        loaded, wrong = FieldModel.load(model), 0
        for file in files:
            records = [{key: row[key] for key in row if key != "photo"} for row in rows if row["photo"] == str(file)]
            wrong += records != loaded.look(file).records()
        names, known = [line["photo"] for line in lines], set(map(str, files))
        missing, others = known - {row["photo"] for row in rows}, {row["photo"] for row in rows} - known
        print(f"{n} files in pieces with pauses of up to {longest:g} s, 2 kills, exit code {process.returncode}")
        print(f"lines {len(lines)}, twice {len(names) - len(set(names))}, reasons {sum('reason' in x for x in lines)}")
        print(f"without results {len(missing)}, other results {wrong}, other names {len(others)}")
        return int(wrong > 0 or len(names) != len(set(names)))


def scan(n: int) -> int:
    """Print the processor time of scans with n processed files, after a change of the folder and without."""
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / f"{number}.png" for number in range(n)]
        for file in files:
            file.touch()
        arrivals = Arrivals(place, 5.0)
        arrivals.due(0.0)
        for path, _ in arrivals.due(1.0):
            arrivals.done(path)
        for name, step in (("after a change", 100.0), ("without a change", 3.0)):
            times = []
            for number in range(1, 6):
                began = time.process_time()
                arrivals.due(1000.0 * (1 + (step < 10)) + step * number)
                times.append(1000 * (time.process_time() - began))
            print(f"{name}: {sorted(times)[2]:.1f} ms")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("photos", type=Path, nargs="*")
    parser.add_argument("--scan", type=int)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--longest", type=float, default=2.0)
    given = parser.parse_args()
    if given.scan is not None:
        sys.exit(scan(given.scan))
    sys.exit(main(given.model, given.photos, given.files, given.longest))
