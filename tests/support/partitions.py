"""Rows divided into parts, and predictors merged from them."""

import numpy as np

import pippin

KINDS = {k: "even" if k % 2 == 0 else "odd" for k in range(12)}
PER = (None, "class", "group", "class and group", "cluster", "rc3p", KINDS)


def divided(n, how, pieces, rng):
    """Return cuts into parts: of equal sizes, of random sizes (some empty), or of one row each except the last."""
    if how == "even":
        cuts = np.linspace(0, n, pieces + 1).astype(int)
    elif how == "one row":
        cuts = np.append(np.minimum(np.arange(pieces), n), n)
    else:
        cuts = np.concatenate([[0], np.sort(rng.integers(0, n + 1, pieces - 1)), [n]])
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def whole_and_merged(probs, labels, score, per, groups, unseen, cuts, most_scores):
    """Return the contents of the predictor from all rows at once, and of the predictor from parts."""
    by_group = isinstance(per, str) and "group" in per
    groups = groups if by_group else None
    options = {"per": per, "unseen": unseen if by_group else "error", "seed": 5}
    whole = pippin.calibrate(probs, labels, score, 0.2, groups=groups, **options)
    calibration = pippin.distributed.Calibration(
        score, 0.2, classes=range(probs.shape[1]), most_scores=most_scores, **options
    )
    parts = [
        calibration.part(probs[a:b], labels[a:b], groups=groups[a:b] if by_group else None, first=a) for a, b in cuts
    ]
    merged = calibration.merge(parts[::-1])
    return tuple(one.content(scores=most_scores > 0) for one in (whole, merged))
