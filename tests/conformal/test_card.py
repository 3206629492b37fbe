"""Cards (answers about saved objects) and provenance: every question, the beta law of coverage, damaged records."""

import hashlib
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

import pippin
from pippin._conformal.serialization import content_checksum

SAVED = sorted(
    path for path in (Path(__file__).parents[1] / "data/predictors").glob("*.json") if path.stem != "expected"
)
QUESTIONS = [
    "What is it?",
    "What is guaranteed?",
    "At which level?",
    "On which condition?",
    "How much does it vary between calibrations?",
    "What is not guaranteed?",
    "From how many calibration rows?",
    "From which data?",
    "From which training of the network?",
    "When was it made?",
    "By whom?",
    "With which command?",
    "With which versions?",
    "Which checksum identifies it?",
]
VARIATION = QUESTIONS[4]
UTILITY = pippin.decisions.Utility([[1, -2, -2], [-1, 1, 1]], actions=["spray", "leave"])


def rows(n=900, seed=0, n_classes=3):
    """Return probabilities of n rows, and labels drawn from them; no two probabilities are equal."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(n_classes, 0.6), n)
    return probs, np.array([rng.choice(n_classes, p=p) for p in probs])


def numbers(text):
    return [float(number) for number in re.findall(r"\d\.\d{3,}", text)]


def interval(n, alpha):
    """Return the central 95% interval of coverage, if the threshold is the k-th smallest of n scores."""
    k = int(np.ceil(round((n + 1) * (1 - alpha), 9)))
    return beta.ppf([0.025, 0.975], k, n + 1 - k)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_files_of_every_kind_are_described(path, call):
    """Cards of files that were written before there was provenance answer every question."""
    card = pippin.load(path).card()
    assert [question for question in card if question != "In which state is it?"] == QUESTIONS
    assert all(card.values())
    assert {card[question] for question in QUESTIONS[7:13]} == {"not recorded"}
    code, out, err = call(f"describe {path}")
    assert (code, err) == (0, "")
    printed = re.sub(r"\s+", " ", out)
    assert all(f"{question} {re.sub(chr(32) + '+', ' ', answer)}" in printed for question, answer in card.items())


@pytest.mark.parametrize(("n", "alpha"), [(900, 0.1), (250, 0.02), (19, 0.05)])
def test_coverage_is_described_by_its_beta_distribution(n, alpha):
    probs, labels = rows(n)
    text = pippin.calibrate(probs, labels, "ip", alpha).card()[VARIATION]
    assert "in 95% of calibrations" in text
    assert np.allclose(numbers(text), interval(n, alpha), atol=1e-3)


def test_each_category_has_its_own_variation():
    probs, labels = rows()
    counts = np.bincount(labels)
    card = pippin.calibrate(probs, labels, "ip", per="class", classes=("a", "b", "c")).card()
    expected = [*interval(counts.min(), 0.1), *interval(counts.max(), 0.1)]
    assert np.allclose(numbers(card[VARIATION]), expected, atol=1e-3)
    assert f"{'abc'[counts.argmin()]} ({counts.min()} rows, the fewest)" in card[VARIATION]
    assert f"{'abc'[counts.argmax()]} ({counts.max()} rows, the most)" in card[QUESTIONS[6]]
    kinds = {0: "crop", 1: "weed", 2: "weed"}
    card = pippin.calibrate(probs, labels, "ip", {"crop": 0.02, "weed": 0.1}, per=kinds).card()
    n = int(counts[0])
    expected = [*interval(n, 0.02), *interval(900 - n, 0.1)]
    assert np.allclose(numbers(card[VARIATION]), expected, atol=1e-3)
    assert card["At which level?"] == "alpha = 0.02 for crop (98%), alpha = 0.1 for weed (90%)."


def test_a_group_without_calibration_rows_is_not_reported():
    probs, labels = rows(300)
    groups = np.repeat(["north", "south"], [100, 200])
    card = pippin.calibrate(probs, labels, "ip", per="group", groups=groups, unseen="marginal").card()
    assert "group north (100 rows, the fewest)" in card[VARIATION]
    assert "group south (200 rows, the most)" in card[VARIATION]
    assert "Objects of groups without calibration rows have no guarantee." in card["On which condition?"]


def test_equal_scores_give_a_lower_bound_only():
    """With tied scores, and for decisions, a card states only a lower bound on the variation of coverage."""
    probs, labels = rows()
    low = interval(900, 0.1)[0]
    for made in (
        pippin.calibrate(probs, labels, "topk"),
        pippin.decisions.calibrate(probs, labels, UTILITY),
    ):
        text = made.card()[VARIATION]
        assert "at least" in text
        assert "between" not in text
        assert "in 97.5% of calibrations" in text
        assert np.allclose(numbers(text), low, atol=1e-3)


def test_what_is_not_known_is_not_claimed():
    probs, labels = rows(300)
    folds = np.arange(300) % 3
    for made in (
        pippin.calibrate(probs, labels, "ip", folds=folds),
        pippin.calibrate(probs, labels, "ip/ms"),
        pippin.calibrate(probs, labels, "ip", per="rc3p"),
    ):
        assert "no exact distribution is known" in made.card()[VARIATION]
        assert numbers(made.card()[VARIATION]) == []
    text = pippin.calibrate(probs, labels, "ip", units=np.arange(300) // 3).card()[VARIATION]
    assert np.allclose(numbers(text), interval(100, 0.1), atol=1e-3)
    assert "if all rows of a unit are alike" in text
    text = pippin.calibrate(probs, labels, "ip", units=np.arange(300)).card()[VARIATION]
    assert np.allclose(numbers(text), interval(300, 0.1), atol=1e-3)
    assert "alike" not in text


def test_a_confidence_is_stated():
    probs, labels = rows()
    predictor = pippin.calibrate(probs, labels, "ip", confidence=0.95)
    assert "with a confidence of 95% over calibrations" in predictor.card()["At which level?"]
    assert numbers(predictor.card()[VARIATION])[0] > interval(900, 0.1)[0]


@pytest.mark.filterwarnings("ignore:.*too few")
def test_infinite_thresholds_are_stated():
    probs, labels = rows(5)
    text = pippin.calibrate(probs, labels, "ip").card()[VARIATION]
    assert text == "Coverage is always 1, since so few rows allow no finite threshold."


# Provenance


def made_objects():
    probs, labels = rows(400)
    return {
        "predictor": pippin.calibrate(probs, labels, "ip"),
        "per class": pippin.calibrate(probs, labels, "ip", per="class"),
        "sharpened": pippin.calibrate(probs, labels, "ip", sharpen="split", seed=0),
        "decider": pippin.decisions.calibrate(probs, labels, UTILITY),
        "decider for units": pippin.decisions.calibrate(probs, labels, UTILITY, units=np.arange(400) // 2),
        "sharpened decider": pippin.decisions.calibrate(probs, labels, UTILITY, sharpen="split", seed=0),
        "mixture of deciders": pippin.decisions.calibrate(probs, labels, UTILITY, sharpen="mixture", seed=0),
        "decider per action": pippin.decisions.calibrate(probs, labels, UTILITY, per="action"),
        "bounded cost": pippin.decisions.bound_cost(probs, labels, UTILITY),
        "selective": pippin.decisions.select(probs, labels, error=0.4),
        "risk": pippin.decisions.control_risk(probs, labels, 1.0),
        "sharpener": pippin.sharpen(probs, labels),
    }


MADE = made_objects()


@pytest.fixture
def data(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b,label\n")
    return tmp_path / "rows.csv"


def test_cards_of_deciders_name_units_and_sharpeners():
    card = MADE["decider for units"].card()
    assert "rows of one unit may depend on each other" in card["On which condition?"]
    assert card[QUESTIONS[6]] == "400 rows of 200 units."
    assert np.allclose(numbers(card[VARIATION]), interval(200, 0.1)[0], atol=1e-3)
    card = MADE["sharpened decider"].card()
    assert "from the recalibrated probabilities of 3 classes" in card["What is it?"]
    assert "The sharpener was fitted on 200 other rows." in card["On which condition?"]
    assert np.allclose(numbers(card[VARIATION]), interval(200, 0.1)[0], atol=1e-3)
    assert "no exact distribution is known" in MADE["mixture of deciders"].card()[VARIATION]


@pytest.mark.parametrize("name", MADE)
def test_provenance_is_saved_and_restored(name, data, tmp_path):
    made = MADE[name]
    assert made.provenance is None
    recorded = made.with_provenance(data, by="Ada", command="pippin calibrate", training="0f")
    recorded.save(tmp_path / "saved.json")
    loaded = pippin.load(tmp_path / "saved.json")
    assert loaded.provenance == recorded.provenance
    card = loaded.card()
    assert card["From which data?"] == f"{data}: SHA-256 {hashlib.sha256(data.read_bytes()).hexdigest()}"
    assert card["From which training of the network?"] == "train.json: SHA-256 0f"
    assert card["When was it made?"] == "2025-11-18T14:03:22Z"
    assert (card["By whom?"], card["With which command?"]) == ("Ada", "pippin calibrate")
    assert card["With which versions?"].startswith(f"pippin {pippin.__version__}, NumPy {np.__version__}, Python 3.")
    assert loaded.content() == made.content()
    assert loaded.checksum == made.checksum
    assert pickle.loads(pickle.dumps(loaded)).provenance == recorded.provenance  # noqa: S301


def test_a_monitor_and_a_stream_keep_the_provenance_of_their_predictor(data, tmp_path):
    predictor = MADE["predictor"].with_provenance(data)
    for state in (pippin.online.Monitor(predictor), pippin.online.Stream(predictor)):
        state.save(tmp_path / "state.json")
        loaded = pippin.load(tmp_path / "state.json")
        assert loaded.provenance == loaded.predictor.provenance == predictor.provenance
        assert loaded.card()["From which data?"].startswith(str(data))


def test_another_level_keeps_the_data_but_not_the_command(data):
    predictor = MADE["predictor"].with_provenance(data, command="pippin calibrate --alpha 0.1").at(0.05)
    assert predictor.card()["From which data?"].startswith(str(data))
    assert predictor.card()["With which command?"] == "not recorded"
    assert MADE["predictor"].at(0.05).provenance is None


def test_names_and_commands_are_printed_on_one_line(tmp_path):
    recorded = MADE["predictor"].with_provenance({"a\nb.csv": "00"}, by="\x1b[31m", command="x\ny")
    card = recorded.card()
    assert card["From which data?"] == r"a\nb.csv: SHA-256 00"
    assert (card["By whom?"], card["With which command?"]) == (r"\x1b[31m", r"x\ny")


@pytest.mark.parametrize("name", MADE)
def test_an_edited_record_is_refused(name, data, tmp_path):
    path = tmp_path / "saved.json"
    MADE[name].with_provenance(data).save(path)
    whole = json.loads(path.read_text())
    edited = json.loads(path.read_text())
    edited["predictor"]["provenance"]["date"] = "2031-01-01T00:00:00Z"
    removed = json.loads(path.read_text())
    del removed["predictor"]["provenance"]
    for content in (edited, removed):
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"was edited or damaged after it was saved \(its checksum differs\)"):
            pippin.load(path)
    path.write_text(json.dumps(whole))
    assert pippin.load(path).provenance is not None


@pytest.mark.parametrize(
    "record",
    [{}, 3, {"data": 1}, {"data": {"a": 1}}, {"date": None}, {"versions": []}, {"more": "x"}],
    ids=str,
)
def test_a_record_that_makes_no_sense_is_refused(record, data, tmp_path):
    """A record of provenance with invalid entries is refused, even in a file with a valid checksum."""
    path = tmp_path / "saved.json"
    MADE["predictor"].with_provenance(data).save(path)
    whole = json.loads(path.read_text())
    content = whole["predictor"]
    good = content["provenance"]
    content["provenance"] = good | record if isinstance(record, dict) and record else record
    path.write_text(json.dumps(whole | {"sha256": content_checksum(content)}))
    with pytest.raises(ValueError, match="its provenance makes no sense"):
        pippin.load(path)


def test_the_date_is_now_or_that_of_source_date_epoch(data, monkeypatch):
    predictor = MADE["predictor"]
    assert predictor.with_provenance(data, date="2024-02-30").provenance.date == "2024-02-30"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert predictor.with_provenance(data).provenance.date == "1970-01-01T00:00:00Z"
    for wrong in ("tomorrow", "1e3", str(10**20)):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        with pytest.raises(pippin.InputError, match="Expected SOURCE_DATE_EPOCH to be a whole number of seconds"):
            predictor.with_provenance(data)


def test_several_files_have_a_checksum_each(data, tmp_path):
    (tmp_path / "more.csv").write_text("x")
    card = MADE["predictor"].with_provenance([data, tmp_path / "more.csv"]).card()
    assert card["From which data?"].count("SHA-256") == 2
    with pytest.raises(OSError, match="absent"):
        MADE["predictor"].with_provenance(tmp_path / "absent.csv")


def test_the_checksum_depends_on_the_calibration_only(data):
    first, other = MADE["predictor"], MADE["predictor"].at(0.2)
    assert replace(first, provenance=None).checksum == first.with_provenance(data).checksum == first.checksum
    assert other.checksum != first.checksum
