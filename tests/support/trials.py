"""Trials (rows to be split) and studies (data of a report) from arrays."""

from pippin._compare.methods import parse_methods
from pippin._compare.report_data import study
from pippin._compare.splits import make_trial
from pippin._validation.labels import as_labelled


def trial_of(probs, labels, alpha=0.1, seed=0, classes=None, groups=None, fraction=0.45):
    return make_trial(as_labelled(probs, labels, classes), alpha, fraction, seed, groups)


def study_of(probs, labels, scores, splits, **options):
    return study(trial_of(probs, labels, **options), parse_methods(scores), splits)
