"""What changes do to sets, what monitors say of them and when, and what repairs them.

    python benchmarks/shift_tables.py [seen.npz] [--splits 20] [--figure PATH]

Without a file the embedded example's probabilities are changed: less sure, too sure, or with noise on their logarithms.
In each split 1,000 rows calibrate, at alpha = 0.1; streams have 300 of the other rows as they are, then changed ones.
"""

import argparse
import warnings

import numpy as np

import pippin

SCORES = ("ip", "margin", "aps", "raps", "pip", "repip", "saps", "socop")
WAYS = ("none", "grow", "window", "track", "aci", "dtaci")
SIZES = ("weak", "medium", "strong")
OLD, GOOD = 1000, 300


def softmax(logits):
    """Probabilities in double precision."""
    raised = np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def of_file(path):
    """The probabilities under every change, the labels, and the probabilities of unseen classes."""
    with np.load(path) as seen:
        changes = {name: softmax(seen[name]) for name in seen.files if name not in ("labels", "classes", "unseen")}
        return changes, seen["labels"], softmax(seen["unseen"])


def of_example():
    """The same of the embedded example."""
    data, rng = pippin.load_example(), np.random.default_rng(0)
    logs = np.log(np.maximum(data.probs.astype(float), 1e-12))
    found = {"unchanged": softmax(logs)}
    for size, word in enumerate(SIZES):
        found[f"less sure, {word}"] = (1 - (0.1, 0.3, 0.5)[size]) * found["unchanged"] + (0.1, 0.3, 0.5)[size] / 12
    for size, word in enumerate(SIZES):
        found[f"too sure, {word}"] = softmax((1.5, 2, 3)[size] * logs)
    for size, word in enumerate(SIZES):
        found[f"noise, {word}"] = softmax(logs + rng.normal(0, (0.5, 1, 2)[size], logs.shape))
    return found, data.labels, None


def divided(labels, seed):
    """Rows that calibrate, and the others, in random order."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return order[:OLD], order[OLD:]


def hardest(probs, labels):
    """The two classes that are taken for others most often."""
    right = probs.argmax(axis=1) == labels
    return np.argsort([right[labels == k].mean() for k in range(probs.shape[1])])[:2]


def more_of(new, probs, labels):
    """Rows of the two hardest classes, and every fifth of the others."""
    return new[np.isin(labels[new], hardest(probs, labels)) | (np.arange(len(new)) % 5 == 0)]


def suffering(changes, labels, splits):
    """Coverage, size and singletons of every score under every change, means over the splits."""
    plain, found = changes["unchanged"], {}
    for seed in range(splits):
        old, new = divided(labels, seed)
        shown = {name: (probs[new], labels[new]) for name, probs in changes.items()}
        more = more_of(new, plain, labels)
        shown["other frequencies"] = plain[more], labels[more]
        for score in SCORES:
            predictor = pippin.calibrate(plain[old], labels[old], score, seed=seed)
            for name, (probs, true) in shown.items():
                sets = predictor.predict(probs, seed=seed)
                told = (
                    pippin.metrics.coverage(sets, true),
                    pippin.metrics.mean_size(sets),
                    pippin.metrics.singleton_rate(sets),
                )
                found.setdefault((name, score), []).append(told)
    return {key: np.mean(values, axis=0) for key, values in found.items()}


def first(monitor, rows):
    """The number of the row that raised an alarm; None, if none did."""
    return next((i for i, row in enumerate(rows) if monitor.update(*row)), None)


def delays(changes, labels, splits):
    """Of every change: rows until an alarm; and false alarms where nothing changed."""
    plain, found, false = changes["unchanged"], {}, {}
    kinds = ("labels", "no labels", "mean time", "misses")
    for seed in range(splits):
        old, new = divided(labels, seed)
        predictor = pippin.calibrate(plain[old], labels[old], "pip")
        for name, probs in changes.items():
            rows = np.concatenate([plain[new[:GOOD]], probs[new[GOOD:]]])
            true = labels[new].tolist()
            made = (
                (pippin.online.Monitor(predictor, seed=seed), zip(rows, true, strict=True)),
                (pippin.online.Monitor(predictor, reference=plain[old], seed=seed), ((row,) for row in rows)),
                (pippin.online.Monitor(predictor, mean_time=10_000, seed=seed), zip(rows, true, strict=True)),
                (pippin.online.RiskMonitor(0.1), ((bool(m),) for m in ~predictor.predict(rows).contains(true))),
            )
            for kind, (monitor, given) in zip(kinds, made, strict=True):
                alarm = first(monitor, given)
                if name == "unchanged":
                    false.setdefault(kind, []).append(alarm is not None)
                elif not (alarm is not None and alarm < GOOD):
                    found.setdefault((name, kind), []).append(np.inf if alarm is None else alarm - GOOD + 1)
    return found, {kind: (sum(values), len(values)) for kind, values in false.items()}, kinds


def repairs(changes, labels, splits):
    """Coverage and size of every way after a change, from its 200th label on; and of weights without labels."""
    from pippin.sklearn import estimate_ratios

    plain, found = changes["unchanged"], {}
    for seed in range(splits):
        old, new = divided(labels, seed)
        predictor = pippin.calibrate(plain[old], labels[old], "pip")
        for name, probs in changes.items():
            later = new[GOOD:]
            for way in WAYS:
                stream = pippin.online.Stream(predictor, way, seed=seed, window=300 if way == "window" else None)
                told = []
                for row, label in zip(probs[later], labels[later].tolist(), strict=True):
                    ticket = stream.predict_one(row)
                    told.append((label in ticket.members, len(ticket.members)))
                    stream.learn(ticket, label)
                found.setdefault((name, way), []).append(np.mean(told[200:], axis=0))
            logs = [np.log(np.maximum(one, 1e-6)) for one in (plain[old], probs[later])]
            known, asked = estimate_ratios(*logs, random_state=seed)
            sets = pippin.calibrate(plain[old], labels[old], "pip", 0.1, weights=known).predict(
                probs[later], weights=asked
            )
            told = pippin.metrics.coverage(sets, labels[later]), pippin.metrics.mean_size(sets)
            found.setdefault((name, "weights"), []).append(told)
    return {key: np.mean(values, axis=0) for key, values in found.items()}


def frequencies(probs, labels, splits):
    """Coverage and size where the two hardest classes are five times as common: plain, and with label ratios."""
    found = {}
    for seed in range(splits):
        old, new = divided(labels, seed)
        more = more_of(new, probs, labels)
        plain = pippin.calibrate(probs[old], labels[old], "pip").predict(probs[more])
        ratios = pippin.shift.label_ratios(probs[old], labels[old], probs[more])
        weighted = pippin.calibrate(probs[old], labels[old], "pip", 0.1, weights=ratios)
        moved = weighted.predict(probs[more], weights=ratios)
        for name, sets in (("as calibrated", plain), ("label ratios", moved)):
            found.setdefault(name, []).append(
                (pippin.metrics.coverage(sets, labels[more]), pippin.metrics.mean_size(sets))
            )
    return {name: np.mean(values, axis=0) for name, values in found.items()}


def unseen_tables(plain, labels, unseen, splits):
    """Of objects whose class was never shown: their sets, and how many are found among nine times as many others."""
    found = []
    for seed in range(splits):
        old, new = divided(labels, seed)
        chosen = np.random.default_rng(seed).permutation(len(unseen))[: len(new) // 9]
        predictor = pippin.calibrate(plain[old], labels[old], "pip")
        sets = predictor.predict(unseen[chosen])
        batch = np.concatenate([plain[new], unseen[chosen]])
        p = pippin.shift.novelty(predictor, batch, reference=plain[old])
        flagged = pippin.shift.discoveries(p, level=0.2)
        right = flagged[len(new) :].sum()
        wrong = (flagged.sum() - right) / max(1, flagged.sum())
        least = p[len(new) :] <= 0.1
        found.append(
            (
                pippin.metrics.mean_size(sets),
                pippin.metrics.singleton_rate(sets),
                right / len(chosen),
                wrong,
                np.mean(least),
            )
        )
    return np.mean(found, axis=0)


def table(title, columns, rows):
    """A table as the docs have it."""
    print(f"\n{title}\n\n| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, cells in rows:
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def tell(changes, labels, unseen, splits):
    """Prints every table."""
    found = suffering(changes, labels, splits)
    names = [*changes, "other frequencies"]
    for i, title in enumerate(("coverage, %", "size", "singletons, %")):
        scale, digits = (1, 2) if i == 1 else (100, 1)
        rows = [(name, [f"{scale * found[name, score][i]:.{digits}f}" for score in SCORES]) for name in names]
        table(title, SCORES, rows)
    lost = [np.mean([max(0, 0.9 - found[name, score][0]) for name in names[1:]]) for score in SCORES]
    table("coverage lost, points, mean over the changes", SCORES, [("", [f"{100 * one:.1f}" for one in lost])])
    when, false, kinds = delays(changes, labels, splits)
    rows = []
    for name in [*changes][1:]:
        each = [np.array(when[name, kind]) for kind in kinds]
        rows.append((name, [f"{np.median(one):.0f} ({np.isfinite(one).mean():.0%})" for one in each]))
    table("rows until an alarm, median (share of streams with one)", kinds, rows)
    print("false alarms where nothing changed:", {kind: f"{a} of {n}" for kind, (a, n) in false.items()})
    mended, ways = repairs(changes, labels, max(1, splits // 2)), (*WAYS, "weights")
    rows = [
        (name, [f"{100 * mended[name, way][0]:.1f} / {mended[name, way][1]:.2f}" for way in ways]) for name in changes
    ]
    table("coverage, % / size from the 200th label after the change", ways, rows)
    told = frequencies(changes["unchanged"], labels, splits)
    print("\nother frequencies:", {name: f"{100 * one[0]:.1f}% / {one[1]:.2f}" for name, one in told.items()})
    if unseen is not None:
        size, singles, right, wrong, least = unseen_tables(changes["unchanged"], labels, unseen, splits)
        print(
            f"unseen classes: size {size:.2f}, singletons {singles:.1%}; {right:.1%} discovered at level 0.2, "
            f"{wrong:.1%} of discoveries false; {least:.1%} have p ≤ 0.1"
        )
    return found


INK = {"light": ("#22262a", "#d5d2c9"), "dark": ("#e8e5de", "#454b50")}  # text and lines of a page


def draw(found, names, path):
    """Draw coverage and size of every score under every change as heat maps, into PATH-light.png and PATH-dark.png."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    panels = (
        ("coverage, % (90% requested)", 0, 100, ".0f", "RdYlBu", (25, 100)),
        ("mean number of classes in a set", 1, 1, ".1f", "Blues", (1, 4)),
    )
    for theme, (ink, line) in INK.items():
        figure = Figure(figsize=(9, 4.9))
        for place, (title, i, scale, digits, colors, (low, high)) in zip((0.145, 0.575), panels, strict=True):
            axes = figure.add_axes((place, 0.02, 0.415, 0.865))
            values = np.array([[scale * found[name, score][i] for score in SCORES] for name in names])
            shades = colormaps[colors](np.clip((values - low) / (high - low), 0, 1) * 0.8 + 0.1)
            axes.imshow(shades, aspect="auto")
            for (row, column), value in np.ndenumerate(values):
                dark = shades[row, column, :3] @ (0.299, 0.587, 0.114) < 0.5
                color = "#ffffff" if dark else "#22262a"
                axes.text(column, row, f"{value:{digits}}", ha="center", va="center", fontsize=8.5, color=color)
            axes.set_title(title, loc="left", fontsize=10.5, color=ink, pad=8)
            axes.set_xticks(range(len(SCORES)), SCORES, fontsize=8.5, color=ink)
            axes.set_yticks(range(len(names)), names if i == 0 else [], fontsize=9, color=ink)
            axes.xaxis.tick_top()
            axes.tick_params(length=0)
            for spine in axes.spines.values():
                spine.set_color(line)
        figure.savefig(f"{path}-{theme}.png", dpi=180, transparent=True)


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seen", nargs="?")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--figure", metavar="PATH")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # thresholds of few rows, and weights that are far from one, on purpose
    changes, labels, unseen = of_example() if given.seen is None else of_file(given.seen)
    found = tell(changes, labels, unseen, given.splits)
    if given.figure:
        draw(found, [*changes, "other frequencies"], given.figure)


if __name__ == "__main__":
    main()
