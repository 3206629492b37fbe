"""Release check: the packages build, and the wheel works in an empty environment without extras.

    make release-check

Builds sdist and wheel (the wheel from the sdist) and installs the wheel alone. There it runs the first example of
README and `pippin compare`, and calls everything that needs an extra, which must be named in one sentence.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PREPARED = "import pippin; d = pippin.load_example(); p = pippin.calibrate(d.probs[:200], d.labels[:200], 'ip'); "
EXTRAS = {  # extra that the error of each call must name
    "p.plot()": "report",
    "pippin.sharpen(d.probs[:200], d.labels[:200])": "sharpen",
    "import pippin.sklearn": "sklearn",
    "import pippin.torch": "torch",
    "import pippin.dask": "dask",
    "from pippin.export.onnx import head_model; head_model(p)": "onnx",
}


def main() -> None:
    """Run and report each step; stop at the first failure."""
    version = agreement()
    print(f"version, CHANGELOG and CITATION agree on {version}")
    dist = ROOT / "dist"
    for old in dist.glob("*"):
        old.unlink()
    run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)])
    wheel, sdist = next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))
    assert all(version in package.name for package in (wheel, sdist)), (wheel.name, sdist.name)
    print(f"built {wheel.name} ({wheel.stat().st_size:,} bytes) and {sdist.name} ({sdist.stat().st_size:,} bytes)")
    check_contents(wheel, sdist)
    with tempfile.TemporaryDirectory() as folder:
        check_installed(wheel, Path(folder))
    print("ready for a release")


def agreement(root: Path = ROOT) -> str:
    """Return the version, after a check that package, changelog and citation agree.

    Raises:
        AssertionError: they differ.
    """
    version = re.search(r'__version__ = "(.+)"', (root / "src/pippin/_runtime/version.py").read_text())
    changed = re.search(r"^## (\S+?),? ", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    found = [one.group(1) if one else None for one in (version, changed, cited)]
    (one, *others) = found
    assert one, "version.py names no version"
    assert others == [one, one], f"version.py, CHANGELOG.md and CITATION.cff say {found}"
    return one


def check_contents(wheel: Path, sdist: Path) -> None:
    """Check that the wheel contains only the package and its data, and the sdist all sources."""
    names = zipfile.ZipFile(wheel).namelist()
    strange = [name for name in names if not re.match(r"pippin/|pippin_conformal-[^/]+\.dist-info/", name)]
    assert not strange, strange
    for needed in (
        "pippin/_validation/example/seedlings.npz",
        "pippin/cli/report/templates/report.html.j2",
        "pippin/export/c_header.h.in",
        "pippin/py.typed",
    ):
        assert needed in names, f"{needed} is missing in the wheel"
    with tarfile.open(sdist) as packed:
        tops = {name.split("/")[1] for name in packed.getnames() if "/" in name}
    assert {"src", "tests", "docs", "examples", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"} <= tops, tops
    print(f"the wheel holds {len(names)} files of the package, the sdist {', '.join(sorted(tops))}")


def check_installed(wheel: Path, folder: Path) -> None:
    """Check the wheel in an empty environment."""
    venv.create(folder / "env", with_pip=True)
    bin_ = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    run([str(bin_ / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)])
    first = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert first
    (folder / "first.txt").write_text(first.group(1))
    run([str(bin_ / "python"), "-m", "doctest", "-o", "NORMALIZE_WHITESPACE", "first.txt"], folder)
    print("README's first example runs")
    said = run([str(bin_ / "pippin"), "compare", "--splits", "50", "--out", "out"], folder)
    assert list((folder / "out").glob("*.csv")), said
    assert said.count('pip install "pippin-conformal[report]"') == 1, said
    print("pippin compare runs, and says how to get the report")
    for call, extra in EXTRAS.items():
        done = subprocess.run(
            [str(bin_ / "python"), "-c", PREPARED + call],
            cwd=folder,
            env=clean(),
            capture_output=True,
            text=True,
            check=False,
        )
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "nothing"
        assert f'pip install "pippin-conformal[{extra}]"' in last, f"{call}: {last}"
        print(f"{call.rpartition(';')[2].strip()}: {last.partition(': ')[2]}")


def run(command: list[str], folder: Path | None = None) -> str:
    """Run a command, which must succeed; return its output."""
    done = subprocess.run(command, cwd=folder, env=clean(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def clean() -> dict[str, str]:
    """Return the environment without variables that make another copy of the package visible."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


if __name__ == "__main__":
    main()
