"""Draw the pictures of README.md and of the site's start page into docs/_static, each for light and dark pages.

    python docs/pictures.py [digits] [front] [speed] [coverage]

`digits` shows prediction sets of handwritten digits, `front` size against singletons of every score on the embedded
example, `speed` the times in docs/bench.json, if that file exists, and `coverage` the distribution of coverage over
calibration sets. Each PNG file holds its caption, which a test compares with what this script computes.
"""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea
from matplotlib.ticker import FuncFormatter, PercentFormatter
from scipy.stats import beta
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import pippin

DOCS = Path(__file__).parent
WIDTH = 8.4  # inches
SHOWN = ((1, True), (2, True), (1, True), (1, False), (3, True), (1, True))  # size, contains
NAMES = {"margin": "margin", "pip": "PIP", "repip": "RePIP", "topk": "top-k"}
OFFSETS = {"socop": (-4, 10), "aps": (9, 2), "raps": (9, -11), "margin": (-20, 10)}
GROUPS = {"lac": "IP / LAC", "hinge": "IP / LAC", "margin": "margin", "aps": "APS", "raps": "RAPS"}
SCORES = ("ip", "margin", "aps", "raps", "pip", "repip", "saps", "socop")


class Theme(NamedTuple):
    """Colors of a picture; its background is transparent."""

    name: str
    ink: str
    quiet: str
    line: str
    good: str
    bad: str
    bar: str
    digits: str


Picture = tuple[str, Callable[[Theme], Figure]]  # a caption, and the function that draws the picture
THEMES = (
    Theme("light", "#22262a", "#5d6369", "#d5d2c9", "#2f7d40", "#c0302b", "#a9adb1", "gray_r"),
    Theme("dark", "#e8e5de", "#a8adb1", "#454b50", "#7fce8e", "#ff8a80", "#6a7076", "gray"),
)


class DigitSets(NamedTuple):
    """Prediction sets of handwritten digits: the rows shown, and coverage over all new rows."""

    images: np.ndarray
    sets: list[list[int]]
    labels: list[int]
    coverage: float
    n_new: int

    @property
    def caption(self) -> str:
        return f"{self.coverage:.1%} of {self.n_new:,} new sets contain the true class (90% requested)"


def digit_sets() -> DigitSets:
    """Train a classifier on 60 digits, calibrate it on 700 others and predict the sets of the rest."""
    digits = load_digits()
    rows = np.arange(len(digits.target))
    training, others = train_test_split(rows, train_size=60, random_state=1, stratify=digits.target)
    calibration, new = train_test_split(others, train_size=700, random_state=1)
    classifier = LogisticRegression(max_iter=50_000, tol=1e-8).fit(digits.data[training], digits.target[training])
    predictor = pippin.calibrate(
        classifier.predict_proba(digits.data[calibration]), digits.target[calibration], "repip", alpha=0.1
    )
    labels = digits.target[new]
    sets = predictor.predict(classifier.predict_proba(digits.data[new]))
    selected = list(first_rows(sets.sizes, sets.contains(labels), labels))
    return DigitSets(
        digits.images[new][selected],
        [[int(member) for member in sets[row]] for row in selected],
        labels[selected].tolist(),
        pippin.metrics.coverage(sets, labels),
        len(new),
    )


def first_rows(sizes: np.ndarray, contains: np.ndarray, labels: np.ndarray) -> Iterator[int]:
    """Yield the first row of each wanted size and correctness, and of a class that was not shown before if possible."""
    used, classes = set[int](), set[int]()
    for size, correct in SHOWN:
        fitting = [int(row) for row in np.flatnonzero((sizes == size) & (contains == correct)) if row not in used]
        row = next((row for row in fitting if labels[row] not in classes), fitting[0])
        used.add(row)
        classes.add(int(labels[row]))
        yield row


def draw_digits(theme: Theme, result: DigitSets) -> Figure:
    """Draw some digits with their sets, and the coverage of all new sets as a bar."""
    n = len(SHOWN)
    figure = Figure((1.05 * n, 2.7))
    for k, (image, members, label) in enumerate(zip(result.images, result.sets, result.labels, strict=True)):
        axes = figure.add_axes((0.01 + k / n, 0.55, 1 / n - 0.02, 0.43))
        covered = label in members
        color = theme.good if covered else theme.bad
        axes.imshow(np.pad(image, 1), cmap=theme.digits, interpolation="catrom", vmin=0, vmax=15)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color=color, linewidth=2)
        write_set(axes, theme, members, label)
        text = f"true class: {label}" if covered else f"misses the {label}"
        figure.text((k + 0.5) / n, 0.375, text, ha="center", fontsize=9, color=theme.quiet if covered else theme.bad)
    axes = figure.add_axes((0.01, 0.165, 0.98, 0.075))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    axes.barh(0.5, 1, 1, color=theme.bad, alpha=0.4)
    axes.barh(0.5, result.coverage, 1, color=theme.good)
    axes.plot((0.9, 0.9), (-0.4, 1.4), color=theme.ink, linewidth=2, clip_on=False)
    share, _, rest = result.caption.partition(" of ")
    figure.text(0.01, 0.065, share, va="center", fontsize=13, fontweight="bold", color=theme.good)
    figure.text(0.128, 0.065, f"of {rest}", va="center", fontsize=13, color=theme.ink)
    return figure


def write_set(axes: Axes, theme: Theme, members: list[int], label: int) -> None:
    """Write a set below a digit, the true class in color."""
    plain = {"color": theme.quiet, "fontsize": 15}
    true = {"color": theme.good, "fontsize": 15, "fontweight": "bold"}
    parts = [TextArea("{", textprops=plain)]
    for k, member in enumerate(members):
        parts += [TextArea(", ", textprops=plain)] * bool(k)
        parts += [TextArea(str(member), textprops=true if member == label else plain)]
    parts += [TextArea("}", textprops=plain)]
    row = HPacker(children=parts, align="baseline", pad=0, sep=0)
    axes.add_artist(
        AnnotationBbox(row, (0.5, -0.25), xycoords="axes fraction", frameon=False, annotation_clip=False, pad=0)
    )


def scores() -> list[dict[str, Any]]:
    """Return the mean size and singletons of each score on the embedded example, over 200 random splits."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, SCORES, alpha=0.1, splits=200, classes=data.classes)
    return list(comparison.summary().iter_rows(named=True))


def draw_front(theme: Theme, rows: list[dict[str, Any]]) -> Figure:
    """Draw size against singletons, with the scores that no other score beats in both."""
    figure = Figure((WIDTH, 3.4))
    axes = styled(figure.add_axes((0.085, 0.15, 0.9, 0.73)), theme)
    best = sorted(
        (row for row in rows if not any(beats(other, row) for other in rows)), key=lambda row: row["mean_size"]
    )
    axes.plot(
        [row["mean_size"] for row in best], [row["singleton_rate"] for row in best], color=theme.good, linewidth=1.5
    )
    for row in rows:
        is_best = row in best
        color = theme.good if is_best else theme.quiet
        axes.plot(row["mean_size"], row["singleton_rate"], "o", color=color, markersize=9 if is_best else 7)
        axes.annotate(
            NAMES.get(row["score"], row["score"].upper()),
            (row["mean_size"], row["singleton_rate"]),
            xytext=OFFSETS.get(row["score"], (9, -4)),
            textcoords="offset points",
            fontsize=11,
            fontweight="bold" if is_best else "normal",
            color=color,
        )
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("mean number of classes in a set (smaller is better)", color=theme.ink)
    axes.set_title(
        "sets with a single class (more is better); all scores cover 90%", loc="left", fontsize=10.5, color=theme.ink
    )
    axes.set(xlim=(1.32, 2.62), ylim=(0.59, 0.795))
    return figure


def beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return True if a score has smaller sets and more singletons than another."""
    return one["mean_size"] < other["mean_size"] and one["singleton_rate"] > other["singleton_rate"]


def draw_speed(theme: Theme, case: dict[str, Any]) -> Figure:
    """Draw the time of calibrate and predict per score and library on a logarithmic axis."""
    groups = speed_groups(case["rivals"])
    bars = [(name, library, seconds) for name, times in groups.items() for library, seconds in times.items()]
    figure = Figure((WIDTH, 0.8 + 0.23 * len(bars) + 0.14 * len(groups)))
    height = figure.get_figheight()
    axes = styled(figure.add_axes((0.2, 0.4 / height, 0.715, 1 - 0.8 / height)), theme)
    place = 0.0
    for name, times in groups.items():
        axes.text(
            -0.27,
            place + (len(times) - 1) / 2,
            name,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=11,
            fontweight="bold",
            color=theme.ink,
        )
        for library, seconds in times.items():
            ours = library == "pippin"
            axes.barh(place, seconds, 0.82, color=theme.good if ours else theme.bar)
            ratio = "" if ours else f"   {short_ratio(seconds / times['pippin'])} ×"
            axes.annotate(
                f"{short_time(seconds)}{ratio}",
                (seconds, place),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
                color=theme.good if ours else theme.ink,
            )
            axes.text(
                -0.01,
                place,
                library,
                transform=axes.get_yaxis_transform(),
                ha="right",
                va="center",
                fontsize=9.5,
                color=theme.good if ours else theme.quiet,
            )
            place += 1
        place += 0.5
    slowest, fastest = max(bar[2] for bar in bars), min(bar[2] for bar in bars)
    axes.set(xscale="log", xlim=(10 ** np.floor(np.log10(fastest)), slowest * 2), ylim=(place - 0.9, -0.6), yticks=[])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: short_time(seconds)))
    axes.grid(axis="y", visible=False)
    title = f"calibrate and predict {case['rows']:,} rows × {case['classes']:,} classes, logarithmic scale"
    axes.set_title(title, loc="left", x=-0.27, fontsize=10.5, color=theme.ink)
    return figure


def speed_groups(rivals: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the seconds of each library, per score; of variants of a score of pippin, the slower one counts."""
    groups: dict[str, dict[str, float]] = {}
    for row in rivals:
        library, _, score = row["peer"].partition(" ")
        if "," in score:  # the same score with an additional check
            continue
        times = groups.setdefault(GROUPS[score.lower()], {})
        times["pippin"] = max(row["ours_s"], times.get("pippin", 0))
        times[library] = row["theirs_s"]
    return groups


def short_time(seconds: float) -> str:
    """Return a time in milliseconds or seconds with two significant digits."""
    if seconds >= 1:
        return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s".replace(".0 s", " s")
    return f"{seconds * 1e3:.2g} ms" if seconds < 0.0995 else f"{seconds * 1e3:.0f} ms"


def short_ratio(ratio: float) -> str:
    """Return a ratio with two significant digits."""
    return f"{ratio:.1f}" if ratio < 10 else f"{float(f'{ratio:.2g}'):,.0f}"


def styled(axes: Axes, theme: Theme) -> Axes:
    """Return the axes with the colors of a theme and without a frame."""
    axes.set_facecolor("none")
    axes.tick_params(which="both", colors=theme.quiet, length=0)
    axes.grid(color=theme.line, linewidth=0.7)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def main(names: list[str]) -> None:
    """Draw the named pictures, or all, and print the caption of each."""
    for name in names or PICTURES:
        if name == "speed" and not (DOCS / "bench.json").exists():
            print("speed: docs/bench.json is missing; `make bench` measures it")
            continue
        caption, draw = PICTURES[name]()
        print(f"{name}: {caption}")
        for theme in THEMES:
            path = DOCS / "_static" / f"{name}-{theme.name}.png"
            metadata = {"Software": None, "Description": caption}
            draw(theme).savefig(path, dpi=200, transparent=True, metadata=metadata)


def digits_picture() -> Picture:
    result = digit_sets()
    return result.caption, partial(draw_digits, result=result)


def front_picture() -> Picture:
    rows = scores()
    values = (f"{row['score']} {row['mean_size']:.2f} and {row['singleton_rate']:.0%}" for row in rows)
    return f"Mean size and singletons: {', '.join(values)}", partial(draw_front, rows=rows)


def coverage_picture() -> Picture:
    plans = [pippin.plan(alpha=0.1, n=n) for n in (100, 500, 2_000)]
    ranges = (f"{plan.low:.1%} to {plan.high:.1%} with {plan.n:,} rows" for plan in plans)
    return f"Coverage in 95% of calibrations: {', '.join(ranges)}", partial(draw_coverage, plans=plans)


def draw_coverage(theme: Theme, plans: list[pippin.Plan]) -> Figure:
    """Draw the Beta densities of coverage over calibration sets of several sizes."""
    figure = Figure((WIDTH, 2.9))
    axes = styled(figure.add_axes((0.015, 0.17, 0.97, 0.74)), theme)
    x = np.linspace(0.8, 1, 801)
    for plan, color in zip(plans, (theme.quiet, theme.ink, theme.good), strict=True):
        density = beta(plan.k, plan.n + 1 - plan.k).pdf(x)
        axes.plot(x, density, color=color, linewidth=2)
        axes.fill_between(x, density, color=color, alpha=0.15, linewidth=0)
        place = int(np.flatnonzero(density > 0.65 * density.max())[-1])  # on the right flank
        label = f"{plan.n:,} calibration rows: {plan.low:.1%} to {plan.high:.1%}"
        start = {"xytext": (8, 0), "textcoords": "offset points", "fontsize": 10, "color": color}
        axes.annotate(label, (x[place], density[place]), **start)
    axes.axvline(0.9, color=theme.ink, linewidth=1)
    axes.set(xlim=(0.8, 1), ylim=(0, None), xticks=np.arange(0.82, 0.99, 0.02), yticks=[])
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("coverage, given the calibration set", color=theme.ink)
    return figure


def speed_picture() -> Picture:
    figures = json.loads((DOCS / "bench.json").read_text("utf-8"))
    case = max(figures["peers"], key=lambda case: case["rows"] * case["classes"])
    groups = speed_groups(case["rivals"]).values()
    ratios = [seconds / times["pippin"] for times in groups for name, seconds in times.items() if name != "pippin"]
    low, high = short_ratio(min(ratios)), short_ratio(max(ratios))
    data = f"{case['rows']:,} rows × {case['classes']:,} classes"
    caption = f"{low} to {high} times the speed of other libraries for {data}"
    return caption, partial(draw_speed, case=case)


PICTURES: dict[str, Callable[[], Picture]] = {
    "digits": digits_picture,
    "front": front_picture,
    "speed": speed_picture,
    "coverage": coverage_picture,
}

if __name__ == "__main__":
    main(sys.argv[1:])
