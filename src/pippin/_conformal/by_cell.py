"""From the scores of the true labels to a predictor with a threshold for every class, kind, group or cluster."""

from typing import Any

import numpy as np

from pippin._conformal.clusters import cluster_cells
from pippin._conformal.conditional import ConditionalPredictor, at_level, rare
from pippin._conformal.grouping import Grouping, GroupNames, places
from pippin._conformal.kinds import Kinds
from pippin._distributed.part import Part
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._runtime.arrays import Classes, Codes, Indices, Seed
from pippin._runtime.warn import warn
from pippin._theory.scores import Score
from pippin._validation.index import same_index
from pippin._validation.labels import Labelled, as_numbered_groups
from pippin._validation.rows import Rows


def calibrate_conditional(
    data: Labelled, score: Score, alpha: Any, seed: Seed, grouping: Grouping
) -> ConditionalPredictor:
    """What `pippin.calibrate` does with `per=` or `groups=`, and its warnings."""
    return warned(*make_conditional(data, score, alpha, seed, grouping))


def warned(predictor: ConditionalPredictor, note: str | None) -> ConditionalPredictor:
    """The predictor, after the note and a warning of infinite thresholds."""
    for told in filter(None, (note, rare(predictor))):
        warn(told)
    return predictor


def make_conditional(
    data: Labelled, score: Score, alpha: Any, seed: Seed, grouping: Grouping
) -> tuple[ConditionalPredictor, str | None]:
    """The predictor, and what to warn of beyond infinite thresholds."""
    grouping.check()
    rows, labels, classes = data
    same_index("probs", rows.index, groups=grouping.groups)
    generator = generator_of(seed)
    scores = dispatch.label_scores(rows, labels, score, draws(score, rows.n, generator))
    groups = None if grouping.groups is None else as_numbered_groups(grouping.groups, rows.n)
    ranks = ranks_from_1(rows, labels) if grouping.per == "rc3p" else None
    return from_part(Part(scores, labels, groups, ranks), score, alpha, classes, grouping, generator)


def from_part(
    part: Part, score: Score, alpha: Any, classes: Classes, grouping: Grouping, generator: np.random.Generator
) -> tuple[ConditionalPredictor, str | None]:
    """The same from the scores of all rows; `generator` has drawn their u."""
    assert part.labels is not None
    n, note = len(part.scores), None
    groups: GroupNames | None = None
    kinds: Kinds | None = None
    if grouping.per == "cluster":
        cells, n, note = cluster_cells(part.scores, part.labels, len(classes), alpha, generator)
    else:
        codes, names = (None, None) if part.groups is None else part.groups
        placement, groups, kinds = places(grouping, classes, names)
        cells = placement.cells(part.scores, part.labels, codes, part.ranks)
    blank = ConditionalPredictor(score, grouping.name, 0.5, np.empty(0), None, n, classes, groups, cells, kinds)
    return at_level(blank, alpha), note


def ranks_from_1(rows: Rows, labels: Codes) -> Indices:
    """The rank of every label."""
    return dispatch.label_ranks(rows, labels).astype(np.int32) + np.int32(1)
