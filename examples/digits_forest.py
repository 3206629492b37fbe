"""Sets of a random forest on scikit-learn's digits; its probabilities have many ties."""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import pippin
from pippin.sklearn import ConformalClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0)

forest = RandomForestClassifier(n_estimators=20)
clf = ConformalClassifier(forest, alpha=0.02, cv=0.4, random_state=0).fit(X, y)
sets = clf.predict_set(X_test)

print(f"accuracy {clf.score(X_test, y_test):.3f}")
print(f"coverage {pippin.metrics.coverage(sets, y_test):.3f} (0.98 requested)")
print(sets)
unsure = sets.sizes.argmax()
print(f"image {unsure}: one of {sets[unsure]}, true class {y_test[unsure]}")
