"""scikit-learn's estimator checks for both classifiers, and the error without scikit-learn."""

import os
import subprocess
import sys

import pytest

# Every check of scikit-learn, none excused. With SCIPY_ARRAY_API set, none is skipped either; it has to be set
# before scipy is imported, hence the process of its own.
CHECKED = {
    "split": (
        "ConformalClassifier(random_state=0)",
        "ConformalClassifier(GaussianNB(), score='aps', random_state=0)",
        "ConformalClassifier(GaussianNB(), cv=ShuffleSplit(1, test_size=0.3, random_state=0), random_state=0)",
        "ConformalClassifier(GaussianNB(), 'socop', 0.2, 0.5, random_state=0)",
        "ConformalClassifier(make_pipeline(MaxAbsScaler(), GaussianNB()), random_state=0)",
    ),
    "cross": (
        "CrossConformalClassifier(cv=3, random_state=0)",
        "CrossConformalClassifier(GaussianNB(), 'aps', 0.2, 3, random_state=0)",
        "CrossConformalClassifier(GaussianNB(), cv=KFold(4, shuffle=True, random_state=0), random_state=0)",
    ),
}
CHECKS = """
import sys
import warnings; warnings.simplefilter("ignore")
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import check_estimator
from pippin.sklearn import ConformalClassifier, CrossConformalClassifier
for made in sys.argv[1:]:
    done = check_estimator(eval(made), on_fail=None)
    bad = [(check["check_name"], str(check["exception"])) for check in done if check["status"] != "passed"]
    print(len(done) > 50, bad)
"""


@pytest.fixture(scope="module")
def checked():
    """Run the checks of both classifiers."""
    every = [one for made in CHECKED.values() for one in made]
    env = {**os.environ, "SCIPY_ARRAY_API": "1"}
    printed = subprocess.check_output([sys.executable, "-c", CHECKS, *every], env=env, text=True)
    return dict(zip(every, printed.splitlines(), strict=True))


@pytest.mark.parametrize("made", CHECKED.values(), ids=CHECKED)
def test_all_estimator_checks_pass(made, checked):
    """No check of scikit-learn fails, is expected to fail, or is skipped."""
    assert [checked[one] for one in made] == ["True []"] * len(made)


def test_import_error_names_the_extra():
    """The error names the command that installs the extra; `import pippin` works without it."""
    code = (
        "import sys; sys.modules['sklearn'] = None; import pippin\n"
        "try: import pippin.sklearn\nexcept ImportError as error: print(error)"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed == 'pippin.sklearn needs scikit-learn 1.6 or newer: run pip install "pippin-conformal[sklearn]".\n'
