"""
Why sizes differ
================

100 trees are plenty for one problem and far too few for another. The reason is the number of rows next to a tie.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/stories/why_sizes_differ.svg'

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import rfsize
from rfsize import theory

# %%
# There are four problems: three synthetic ones from the papers, and handwritten digits (5 or more, or below?). For
# each, a random forest is trained on 300 rows; further rows serve as fresh ones. People mostly guess the number of
# trees, and guess the same number for every problem.


def drawn(make):
    """300 rows to train on, and fresh ones."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    X, y = make(rng, y)
    return X[:300], X[300:], y[:300], y[300:]


def circle(rng, y):
    """Points of a square; those of class 1 lie in a circle of half its area."""
    X = rng.uniform(-1, 1, (len(y), 2))
    return X, ((X**2).sum(axis=1) < 2 / np.pi).astype(int)


def twonorm(rng, y):
    """A normal cloud for each class, in 20 dimensions."""
    return rng.normal(size=(len(y), 20)) + np.where(y == 0, 1, -1)[:, None] * 2 / np.sqrt(20), y


def threenorm(rng, y):
    """Two clouds of class 0, and one of class 1 between them."""
    of_class_0, of_class_1 = rng.choice([-1, 1], (len(y), 1)), (-1.0) ** np.arange(20)
    return rng.normal(size=(len(y), 20)) + np.where(y[:, None] == 0, of_class_0, of_class_1) * 2 / np.sqrt(20), y


digits, digit = load_digits(return_X_y=True)
problems = {
    "circle": drawn(circle),
    "twonorm": drawn(twonorm),
    "digits": train_test_split(digits, digit >= 5, train_size=300, random_state=0),
    "threenorm": drawn(threenorm),
}
forests, reports = {}, {}
for name, (X, X_fresh, y, _) in problems.items():
    forests[name] = RandomForestClassifier(500, random_state=0).fit(X, y)
    reports[name] = rfsize.size(forests[name], X_fresh, voting="hard", alpha=0.99)

# %%
# T*(0.99) is the smallest number of trees that gives 99 % of the rows the label of an unlimited forest. It does not
# depend on the error.

print(f"{'':10}{'error':>8}{'T*(0.99)':>10}   95 % interval")
for name, (_, X_fresh, _, y_fresh) in problems.items():
    report, error = reports[name], np.mean(forests[name].predict(X_fresh) != y_fresh)
    print(f"{name:10}{error:8.1%}{report.n_trees:10,}   {report.interval[0]:,} to {report.interval[1]:,}")

# %%
# It depends on the votes. On each row, a certain share of all possible trees votes for class 1: the row's vote
# fraction. If the fraction is 0.9, a few trees show on which side of one half it is. If it is 0.501, a thousand trees
# do not. So the number of rows near one half matters: f(½), the height of the histogram in its middle.

near = {}
figure, panels = plt.subplots(1, 4, figsize=(10, 3), sharey=True, layout="constrained")
for ax, (name, (_, X_fresh, _, _)) in zip(panels, problems.items(), strict=True):
    share = rfsize.tree_outputs(forests[name], X_fresh).votes.fractions()[:, 1]
    near[name] = np.mean(np.abs(share - 0.5) < 0.05) / 0.1
    ax.hist(share, bins=np.linspace(0, 1, 21), density=True, color="C0", alpha=0.5)
    ax.axvspan(0.45, 0.55, color="C3", alpha=0.3, linewidth=0)
    ax.set(title=f"{name}: f(½) = {near[name]:.2f}", xlabel="share of votes for class 1", xlim=(0, 1), ylim=(0, 4))
_ = panels[0].set_ylabel("density of the rows")

# %%
# With T trees, chance decides the rows in a band around ½. The band narrows like 1/√T, so halving the disagreement
# takes four times the trees, on every problem. The disagreement is proportional to f(½), and T*(α) to its square.
# Hernández-Lobato, Martínez-Muñoz and Suárez found this in 2013 ("How large should ensembles of classifiers be?",
# equations 14 and 16).

for name, report in reports.items():
    by_law = theory.asymptotic_size(0.99, near[name])
    print(f"{name:10} T*(0.99) by all votes {report.n_trees:5,}, by f(½) alone {by_law:5,.0f}")

# %%
# Is this true? New trees, whose votes were not used so far, are combined to forests of up to 99 trees and compared with
# the whole forests on the fresh rows. Lines show what the reports expect, dashed lines the law, and dots the
# observations.

sizes = np.unique(2 * np.geomspace(1, 4000, 50).astype(int) + 1)
others = {}
figure, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
for color, (name, (X, X_fresh, y, _)) in zip(("C0", "C1", "C2", "C3"), problems.items(), strict=True):
    expected = [reports[name].loss_at(int(size)).value for size in sizes]
    ax.plot(sizes, expected, color=color)
    ax.plot(sizes, theory.asymptotic_disagreement(sizes, near[name]), color=color, linestyle="--", linewidth=1)
    above = {"digits": 6, "twonorm": -6}.get(name, 0)
    ax.annotate(name, (sizes[-1], expected[-1]), (4, above), textcoords="offset points", color=color, va="center")
    others[name] = RandomForestClassifier(198, random_state=1).fit(X, y)
    votes, whole = rfsize.tree_outputs(others[name], X_fresh).by_tree(), forests[name].predict(X_fresh)
    for size in (3, 9, 33, 99):
        majorities = votes.reshape(len(votes), -1, size).mean(axis=2) > 0.5
        ax.plot(size, np.mean(majorities != whole[:, None]), "o", color=color)
ax.axhline(0.01, color="gray", linestyle=":")
ax.set(xscale="log", yscale="log", xlim=(1, 20_000), ylim=(3e-4, 0.5))
ax.set(xlabel="trees", ylabel="rows with another label")
ax.grid(alpha=0.2)

# %%
# In two dimensions you can see the rows next to a tie. Class 1 of the circle problem is inside the dashed line. The
# darker a place, the more trees it takes there to be 99 % sure of the label.

side = np.linspace(-1, 1, 200)
plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
share = rfsize.tree_outputs(forests["circle"], plane).votes.fractions()[:, 1].reshape(200, 200)
trees = np.clip(theory.instance_size_closed_form(0.99, share), 1, 1e4)
figure, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
places = ax.pcolormesh(side, side, np.log10(trees), cmap="Blues")
ax.add_patch(plt.Circle((0, 0), np.sqrt(2 / np.pi), fill=False, color="C3", linestyle="--"))
ax.set(aspect="equal", title="Trees that a row takes")
figure.colorbar(places, ticks=range(5)).set_ticklabels(["1", "10", "100", "1,000", "10,000"])
print(f"{np.mean(trees > 100):.1%} of the square takes more than 100 trees")

# %%
# You need no such histograms and no fresh rows: a forest's own out-of-bag votes give its T*. With T* trees, your labels
# hardly depend on the seed. Accuracy gains little: next to a tie, any label is right about half of the time.

for name, (X, X_fresh, _, y_fresh) in problems.items():
    first = rfsize.truncate(others[name], n_trees=99)
    small, large = (np.mean(forest.predict(X_fresh) != y_fresh) for forest in (first, forests[name]))
    told = rfsize.size(others[name], X, oob=True, voting="hard")
    print(f"{name:10} T*(0.99) out of bag {told.n_trees:5,}; error of 99 trees {small:.1%}, of 500 {large:.1%}")
