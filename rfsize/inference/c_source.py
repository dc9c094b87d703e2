"""A compiled forest as one C99 file."""

from __future__ import annotations

from pathlib import Path
from string import Template

import numpy as np

from rfsize.inference.answers import settling_labels
from rfsize.inference.c_forest import trees_in_c
from rfsize.stopping.rules.base import Stops
from rfsize.utils.c_literals import array, checked_name, real, text
from rfsize.utils.files import written_whole
from rfsize.walking.layout import Forest

_ABOUT = Template("""\
/* A forest of $n_trees trees on rows of $n_features numbers, as C99 without dependencies. Written by rfsize.
 *
 * A missing value is NaN, and a category the number that it had at training.
$refused * Nothing is allocated, and nothing kept between calls, so that threads may share all of it.
 *
 * Floating-point numbers must be those of IEEE 754, evaluated in their own precision: leave out -ffast-math, and where
 * the processor has fused multiplication and addition, give -std=c99 or -ffp-contract=off. */
""")

_REFUSED = " * A row that the framework of the forest refuses is answered with {}.\n"

_DECLARED_OF_CLASSES = Template("""\
/* The index of the row's class, 0 to $last; also how many trees the row asked; and both of many rows, one after
 * another, where asked may be a null pointer. */
int ${name}_predict_label(const double *row);
int ${name}_predict_label_trees(const double *row, int *asked);
void ${name}_predict_label_many(const double *rows, size_t n_rows, int *classes, int *asked);

/* The probabilities of all $n_classes classes, of one row or of many. */
void ${name}_predict_proba(const double *row, double *probabilities);
void ${name}_predict_proba_many(const double *rows, size_t n_rows, double *probabilities);

/* The label of a class in UTF-8, a null pointer where there is none. */
const char *${name}_class_label(int index);

""")

_DECLARED_OF_CLASS = Template("""\
/* Other names of ${name}_predict_label and its like: the model predicts labels. */
int ${name}_predict(const double *row);
int ${name}_predict_trees(const double *row, int *asked);
void ${name}_predict_many(const double *rows, size_t n_rows, int *classes, int *asked);
""")

_DECLARED_OF_NUMBER = Template("""\
/* $what Of one row, or of many, one after another. */
double ${name}_predict(const double *row);
void ${name}_predict_many(const double *rows, size_t n_rows, double *predicted);
""")

_DECLARED_OF_EACH_CLASS = Template("""\
/* Other names of ${name}_predict_proba and ${name}_predict_proba_many: the model predicts probabilities. */
void ${name}_predict(const double *row, double *probabilities);
void ${name}_predict_many(const double *rows, size_t n_rows, double *probabilities);
""")

_ADD = """
/* Add the scores of a member in the order and the precision in which the framework of the forest adds them. */
static void add_scores(const level *q, int member, sum *total)
{
    for (int output = 0; output < OUTPUTS; output++) {
        const size_t leaf = leaf_of(q, member * OUTPUTS + output);
        for (int part = 0; part < WIDTH; part++)
            total[output + part] = (sum)(total[output + part] + scores[leaf * WIDTH + part]);
    }
}
"""

_PREDICT = """
/* What the framework predicts from sums of scores. */
static void predict_from(const sum *total, sum *score)
{
%s    for (int k = 0; k < SCORES; k++) {
        const sum mean = (sum)(total[k] / DIVISOR);
        score[k] = (sum)(SLOPE * mean);
    }
%s}
"""

_LINKS = {
    "logistic": "score[k] = (sum)(1 / (sum)(1 + (sum)EXP(-score[k])));",
    "exp": "score[k] = (sum)EXP(score[k]);",
    "square": "score[k] = (sum)(score[k] * (score[k] < 0 ? -score[k] : score[k]));",
}

_EACH = "    for (int k = 0; k < SCORES; k++) {}\n"

_SOFTMAX = """    for (int k = 0; k < SCORES; k++)
        if (k == 0 || score[k] > largest) largest = score[k];
    for (int k = 0; k < SCORES; k++) {
        score[k] = (sum)EXP((sum)(score[k] - largest));
        whole += score[k];
    }
    for (int k = 0; k < SCORES; k++) score[k] = (sum)(score[k] / (sum)whole);
"""

_WHOLE = """
/* The prediction of all trees. */
static void predict_all(const double *row, sum *score)
{
    level q[COLUMNS];
    sum total[SCORES];
    quantise(row, q);
    for (int k = 0; k < SCORES; k++) total[k] = start[k];
    for (int member = 0; member < TREES; member++) add_scores(q, member, total);
    predict_from(total, score);
}
"""

_TAKEN = """
/* Whether the framework of the forest takes a row: no %s. */
static int is_taken(const double *row)
{
    for (size_t i = 0; i < FEATURES; i++) {
        const float single = (float)row[i];
        if (%s) return 0;
    }
    return 1;
}
"""

_CLASSES = Template("""
int ${name}_predict_label_trees(const double *row, int *asked)
{
    level q[COLUMNS];
$unless_taken    quantise(row, q);
    return label_of(q, asked);
}

int ${name}_predict_label(const double *row)
{
    int asked;
    return ${name}_predict_label_trees(row, &asked);
}

void ${name}_predict_label_many(const double *rows, size_t n_rows, int *classes, int *asked)
{
    for (size_t i = 0; i < n_rows; i++) {
        int trees;
        classes[i] = ${name}_predict_label_trees(rows + i * FEATURES, &trees);
        if (asked) asked[i] = trees;
    }
}

void ${name}_predict_proba(const double *row, double *probabilities)
{
    sum score[SCORES];
$unless_taken_proba    predict_all(row, score);
$probabilities}

void ${name}_predict_proba_many(const double *rows, size_t n_rows, double *probabilities)
{
    for (size_t i = 0; i < n_rows; i++)
        ${name}_predict_proba(rows + i * FEATURES, probabilities + i * PROBABILITIES);
}

const char *${name}_class_label(int index)
{
    return index >= 0 && index < PROBABILITIES ? class_label[index] : 0;
}
""")

_CLASS = Template("""
int ${name}_predict(const double *row) { return ${name}_predict_label(row); }

int ${name}_predict_trees(const double *row, int *asked) { return ${name}_predict_label_trees(row, asked); }

void ${name}_predict_many(const double *rows, size_t n_rows, int *classes, int *asked)
{
    ${name}_predict_label_many(rows, n_rows, classes, asked);
}
""")

_EACH_CLASS = Template("""
void ${name}_predict(const double *row, double *probabilities) { ${name}_predict_proba(row, probabilities); }

void ${name}_predict_many(const double *rows, size_t n_rows, double *probabilities)
{
    ${name}_predict_proba_many(rows, n_rows, probabilities);
}
""")

_NUMBER = Template("""
double ${name}_predict(const double *row)
{
$number}

void ${name}_predict_many(const double *rows, size_t n_rows, double *predicted)
{
    for (size_t i = 0; i < n_rows; i++) predicted[i] = ${name}_predict(rows + i * FEATURES);
}
""")

_ONE_SCORE = Template("""\
    sum score[SCORES];
$unless_taken    predict_all(row, score);
    return score[0];
""")

_PROBABILITY_OF_ONE = """    probabilities[0] = (sum)(1 - score[0]);
    probabilities[1] = score[0];
"""

_VOTE_OF_LEAF = """
static int vote_of(const level *q, int member)
{
    return leaf_class[leaf_of(q, member)];
}
"""

_VOTE_OF_TREES = """
/* The class of which the member's tree scores most. */
static int vote_of(const level *q, int member)
{
    sum most = 0;
    int vote = 0;
    for (int k = 0; k < OUTPUTS; k++) {
        const sum scaled = (sum)(scores[leaf_of(q, member * OUTPUTS + k)] * alone[0]);
        const sum score = (sum)(alone[k + 1] + scaled);
        if (k == 0 || score > most) {
            most = score;
            vote = k;
        }
    }
    return vote;
}
"""

_REFUSED_LABEL = """    if (!is_taken(row)) {
        *asked = 0;
        return -1;
    }
"""

_REFUSED_PROBABILITIES = """    if (!is_taken(row)) {
        for (int k = 0; k < PROBABILITIES; k++) probabilities[k] = NAN;
        return;
    }
"""


def write_c(path: Path, forest: Forest, stops: Stops | None, voting: str, name: str) -> None:
    """Write the file whole, or not at all.

    Raises
    ------
    ValueError
        If ``name`` is no identifier, a class label too long for C or with a NUL, or the table one that is not
        written in C.
    """
    if stops is not None and stops.metric != "labels":
        raise ValueError(
            "the table stops where probabilities or scores are near enough, which is not written in C: compile the "
            "forest without it, or with a table of metric='labels'"
        )
    content = c_source(forest, stops, voting, checked_name(name))
    with written_whole(path) as partial:
        partial.write_bytes(content.encode("ascii"))


def c_source(forest: Forest, stops: Stops | None, voting: str, name: str) -> str:
    """The text of the file."""
    of_classes, by_votes, taken = bool(forest.classes.size), voting == "hard", _refusal(forest)
    public = {"name": name, "n_classes": len(forest.classes), "last": len(forest.classes) - 1}
    refused = _REFUSED.format("class -1 of no trees, and probabilities that are NaN" if of_classes else "NaN")
    about = _ABOUT.substitute(n_trees=forest.n_trees, n_features=forest.n_features, refused=refused if taken else "")
    declared, predict = _of_predict(forest, public, bool(taken))
    code = [trees_in_c(forest, votes=by_votes and forest.n_outputs == 1), _scores(forest), taken]
    if of_classes:
        declared = _DECLARED_OF_CLASSES.substitute(public) + declared
        code += [_label(forest, stops, voting), _labels(forest), _of_classes(forest, public, bool(taken))]
    body = "".join([*code, predict])
    needs_math = any(word in body for word in ("EXP(", "NAN", "INFINITY"))
    includes = f"#include <stddef.h>\n#include <stdint.h>\n{'#include <math.h>' * needs_math}\n"
    return f"{about}\n{includes}\n{declared}\n{body}"


_SAID = {
    "numbers": "The number that the forest predicts.",
    "probabilities": "The probability of class 1, which the model predicts.",
    "class numbers": "The index of the row's class, which the model predicts as a floating-point number.",
}


def _of_predict(forest: Forest, public: dict[str, object], refuses: bool) -> tuple[str, str]:
    """Declarations and code of the functions that give what the model's own predict does."""
    if forest.predict_gives == "labels":
        texts = _DECLARED_OF_CLASS, _CLASS
    elif forest.predicts_each_class:
        texts = _DECLARED_OF_EACH_CLASS, _EACH_CLASS
    else:
        texts = _DECLARED_OF_NUMBER, _NUMBER
    number = "    return ${name}_predict_label(row);\n"
    if forest.predict_gives != "class numbers":
        refusal = "    if (!is_taken(row)) return NAN;\n" if refuses else ""
        number = _ONE_SCORE.substitute(unless_taken=refusal)
    known = {**public, "what": _SAID.get(forest.predict_gives, ""), "number": Template(number).substitute(public)}
    declared, code = (text.substitute(known) for text in texts)
    return declared, code


def _of_classes(forest: Forest, public: dict[str, object], refuses: bool) -> str:
    each = "    for (int k = 0; k < SCORES; k++) probabilities[k] = score[k];\n"
    return _CLASSES.substitute(
        public,
        unless_taken=_REFUSED_LABEL if refuses else "",
        unless_taken_proba=_REFUSED_PROBABILITIES if refuses else "",
        probabilities=_PROBABILITY_OF_ONE if forest.n_scores == 1 else each,
    )


def _label(forest: Forest, stops: Stops | None, voting: str) -> str:
    label_of = settling_labels(forest, stops, voting).label_in_c()
    if voting == "soft":
        return label_of
    vote = _VOTE_OF_LEAF if forest.n_outputs == 1 else array("alone", forest.alone) + _VOTE_OF_TREES
    return f"enum {{ CLASSES = {len(forest.classes)} }};\n{vote}{label_of}"


def _labels(forest: Forest) -> str:
    labels = ",\n".join(f"    {text(label)}" for label in forest.classes.tolist())
    n_classes = len(forest.classes)
    return f"\nenum {{ PROBABILITIES = {n_classes} }};\nstatic const char *const class_label[] = {{\n{labels}\n}};\n"


def _refusal(forest: Forest) -> str:
    """A function that says whether the framework takes a row, empty where it takes all."""
    conventions = forest.conventions
    if not conventions.refuses_infinite:
        return ""
    if conventions.refuses_missing:
        return _TAKEN % ("missing value, or number beyond single precision", "single - single != 0")
    return _TAKEN % ("number beyond single precision", "single == single && single - single != 0")


def _scores(forest: Forest) -> str:
    """Sums of scores, and what is predicted from them."""
    kind = forest.trees.value.dtype
    single, link = kind == np.float32, forest.conventions.link
    declared, last = "", ""
    if link == "softmax":
        declared, last = "    sum largest = 0;\n    double whole = 0.0;\n", _SOFTMAX
    elif link != "identity":
        last = _EACH.format(_LINKS["logistic" if link == "one-vs-all" else link])
    constants = {"DIVISOR": float(forest.divisor), "SLOPE": forest.conventions.slope}
    return "".join(
        [
            f"\ntypedef {'float' if single else 'double'} sum; /* as the framework of the forest adds up */\n",
            f"enum {{ TREES = {forest.n_trees}, OUTPUTS = {forest.n_outputs}, FEATURES = {forest.n_features} }};\n",
            f"enum {{ WIDTH = {forest.trees.value.shape[1]}, SCORES = {forest.n_scores} }};\n",
            *(
                f"static const sum {name} = {real(float(kind.type(number)), single=single)};\n"
                for name, number in constants.items()
            ),
            array("start", forest.start),
            f"#define EXP {'expf' if single else 'exp'}\n" if "EXP(" in last else "",
            _ADD,
            _PREDICT % (declared, last),
            _WHOLE,
        ]
    )
