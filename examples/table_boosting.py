"""Gradient boosting on a pandas data frame with named classes; the sets keep its index."""

from sklearn.datasets import load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from pippin.sklearn import ConformalClassifier

wine = load_wine(as_frame=True)
X = wine.data[["alcohol", "malic_acid", "ash", "magnesium"]]
y = wine.target.map({0: "barolo", 1: "grignolino", 2: "barbera"})
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)

boosting = HistGradientBoostingClassifier(max_iter=50)
clf = ConformalClassifier(boosting, score="repip(gamma=0.05)", alpha=0.1, cv=0.4, random_state=0).fit(X, y)

frame = clf.predict_set(X_test).to_frame(classes=True).assign(truth=y_test)
print(frame.head(8).to_string())
covered = [truth in labels for truth, labels in zip(frame.truth, frame.labels, strict=True)]
print(f"coverage {sum(covered) / len(covered):.2f}, mean size {frame['size'].mean():.2f}")
print(f"at 70% coverage: mean size {clf.predict_set(X_test, alpha=0.3).sizes.mean():.2f}")
