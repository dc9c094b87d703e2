"""How a row's label is settled, by scores or by votes, in C99.

Each of the two functions here gives ``label_of``: ``static int label_of(const level *q, int *asked)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rfsize.inference.by_scores import cut_of
from rfsize.inference.by_votes import TREES_BETWEEN_LOOKS, majority_stops
from rfsize.inference.c_literals import array, real, smallest
from rfsize.inference.score_stops import by_table, lossless
from rfsize.stopping.stops import AverageStops, BinaryStops, LeaderStops, Stops, TernaryStops, WeightedStops
from rfsize.walking.layout import Forest

# ---------------------------------------------------------------------------------------------------------
# By scores

_ONE_SCORE = """
/* The class that a row is answered with after so many trees, -1 where it asks on. */
static int answer(int asked, const sum *total)
{
    const int look = (asked - FIRST_LOOK + EVERY - 1) / EVERY;
    return total[0] <= low[look] ? 0 : total[0] >= high[look] ? 1 : -1;
}
"""

_SEVERAL_SCORES = """
/* The class that a row is answered with after so many trees, -1 where it asks on. */
static int answer(int asked, const sum *total)
{
    double first = after_drift(asked, 0, total), second = -INFINITY;
    int leader = 0;
    for (int k = 1; k < SCORES; k++) {
        const double score = after_drift(asked, k, total);
        if (score > first) {
            second = first;
            first = score;
            leader = k;
        } else if (score > second) {
            second = score;
        }
    }
    return first - second >= needed[(asked - FIRST_LOOK + EVERY - 1) / EVERY] ? leader : -1;
}
"""

_NO_DRIFT = """
static double after_drift(int asked, int k, const sum *total)
{
    (void)asked;
    return total[k];
}
"""

_DRIFT = """
/* A sum without what it began with, as far as the trees asked make it up. */
static double after_drift(int asked, int k, const sum *total)
{
    const double left = 1.0 - asked / (double)TREES;
    const double moved = left * drift[k];
    return total[k] - moved;
}
"""

_ASK = """
static int label_of(const level *q, int *asked)
{
    sum total[SCORES];
    for (int k = 0; k < SCORES; k++) total[k] = start[k];
    for (int member = 0; member < TREES; member++) {
        add_scores(q, member, total);
        *asked = member + 1;
        if (*asked == TREES || (*asked >= FIRST_LOOK && (*asked - FIRST_LOOK) % EVERY == 0)) {
            const int label = answer(*asked, total);
            if (label >= 0) return label;
        }
    }
    return predicted_label(total);
}
"""

_BY_THRESHOLD = """
/* The class that the framework predicts from the scores of all trees. */
static int predicted_label(const sum *total)
{
    sum score[SCORES];
    predict_from(total, score);
    return score[0] > THRESHOLD;
}
"""

_BY_LARGEST = """
/* The class that the framework predicts from the scores of all trees. */
static int predicted_label(const sum *total)
{
%s    int leader = 0;
    for (int k = 1; k < SCORES; k++)
        if (score[k] > score[leader]) leader = k;
    return leader;
}
"""

_OF_PROBABILITIES = """    sum score[SCORES];
    predict_from(total, score);
"""
_OF_SUMS = "    const sum *const score = total; /* before they are rounded to probabilities */\n"


def label_by_scores(forest: Forest, stops: AverageStops | None) -> str:
    """The label of averaged scores.

    A row is answered after the last tree as well, without its probabilities, where these could not turn its label.
    """
    without = lossless(forest, cut_of(forest))
    stop, n_trees = without if stops is None else by_table(forest, stops), forest.n_trees
    looks = np.arange(stop.first_look, n_trees, stop.every)
    low, high, needed = (
        np.append(bound[looks], last[n_trees]) for bound, last in zip(stop[2:5], without[2:5], strict=True)
    )
    parts = [f"enum {{ FIRST_LOOK = {stop.first_look}, EVERY = {stop.every} }};\n"]
    if forest.n_scores == 1:
        threshold = _rounded(forest.threshold, forest.trees.value.dtype == np.float32)
        parts += [array("low", low), array("high", high), _ONE_SCORE]
        parts += [f"static const sum THRESHOLD = {threshold};\n", _BY_THRESHOLD]
    else:
        parts.append(array("needed", needed))
        parts += [array("drift", stop.drift), _DRIFT] if stop.drift.any() else [_NO_DRIFT]
        numbers = _OF_SUMS if forest.conventions.labels_of_scores else _OF_PROBABILITIES
        parts += [_SEVERAL_SCORES, _BY_LARGEST % numbers]
    return "".join(parts) + _ASK


def _rounded(number: float, single: bool) -> str:
    return real(float(np.float32(number)) if single else number, single=single)


# ---------------------------------------------------------------------------------------------------------
# By votes

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

_LEADERS = """
/* The classes with the most and the second most votes, the lowest where they tie. */
static void two_leaders(const tally *votes, int *leader, int *rival)
{
    *leader = 0;
    for (int k = 1; k < CLASSES; k++)
        if (votes[k] > votes[*leader]) *leader = k;
    *rival = *leader == 0;
    for (int k = *rival + 1; k < CLASSES; k++)
        if (k != *leader && votes[k] > votes[*rival]) *rival = k;
}
"""

_ANSWER = """
/* The class that a row is answered with after so many votes, -1 where it asks on. */
static int answer(int asked, const tally *votes)
{
%s}
"""

_BINARY = """    const int look = (asked + EVERY - 1) / EVERY;
    return votes[1] <= lower[look] ? 0 : votes[1] >= upper[look] ? 1 : -1;
"""

_TERNARY = """    const int32_t t = asked, a = votes[0], b = votes[1];
    const int32_t state = t * (t + 1) * (t + 2) / 6 + a * (t + 1) - a * (a - 1) / 2 + b;
    return ((decision[state >> 2] >> (2 * (state & 3))) & 3) - 1;
"""

_LEAD = """    int leader, rival;
    two_leaders(votes, &leader, &rival);
    if (votes[leader] - votes[rival] + (leader < rival) > TREES - asked) return leader;
    return %s;
"""

_WEIGHTED_TWO = """    const double lead = votes[1] - votes[0];
    return lead > needed[asked] ? 1 : -lead >= needed[asked] ? 0 : -1;
"""

_WEIGHTED = """    int leader, rival;
    double lead;
    two_leaders(votes, &leader, &rival);
    lead = votes[leader] - votes[rival];
    return lead > needed[asked] || (lead == needed[asked] && leader < rival) ? leader : -1;
"""

_COUNT = """
static int label_of(const level *q, int *asked)
{
    tally votes[CLASSES] = {0};
    for (*asked = 1; ; ++*asked) {
        votes[vote_of(q, *asked - 1)]++;
        if (*asked % EVERY == 0 || *asked == TREES) {
            const int label = answer(*asked, votes);
            if (label >= 0 || *asked == TREES) return label;
        }
    }
}
"""

_WEIGH = """
/* The class of the largest weight of all members, added up in the model's own order. */
static int whole_label(const level *q)
{
    double of_class[CLASSES] = {0.0};
    int leader = 0;
    for (int own = 0; own < TREES; own++) {
        const int member = place_of[own], vote = vote_of(q, member);
        for (int k = 0; k < CLASSES; k++)
            of_class[k] += k == vote ? weight[member] : against[member];
    }
    for (int k = 0; k < CLASSES; k++) of_class[k] /= ALL_WEIGHT;
    for (int k = 1; k < CLASSES; k++)
        if (of_class[k] > of_class[leader]) leader = k;
    return leader;
}

static int label_of(const level *q, int *asked)
{
    tally votes[CLASSES] = {0.0};
    for (int member = 0; member < TREES; member++) {
        votes[vote_of(q, member)] += weight[member];
        *asked = member + 1;
        if (*asked >= FIRST_LOOK) {
            const int label = answer(*asked, votes);
            if (label >= 0) return label;
        }
    }
    return whole_label(q);
}
"""


def label_by_votes(forest: Forest, stops: Stops | None) -> str:
    """The label of the majority of votes, or of votes with weights."""
    vote = _VOTE_OF_LEAF if forest.n_outputs == 1 else array("alone", forest.alone) + _VOTE_OF_TREES
    head = f"enum {{ CLASSES = {len(forest.classes)} }};\n"
    if isinstance(stops, WeightedStops):
        return head + vote + _by_weight(forest, stops)
    every = TREES_BETWEEN_LOOKS if stops is None else 1
    head += f"enum {{ EVERY = {every} }};\ntypedef {'int' if forest.n_trees < 1 << 15 else 'long'} tally;\n"
    return head + vote + _by_count(stops or majority_stops(forest), every) + _COUNT


def _by_count(stops: Stops, every: int) -> str:
    if isinstance(stops, BinaryStops):
        n_trees = len(stops.lower) - 1
        looks = np.minimum(np.arange(0, n_trees + every, every), n_trees)
        return array("lower", stops.lower[looks]) + array("upper", stops.upper[looks]) + _ANSWER % _BINARY
    if isinstance(stops, TernaryStops):
        return array("decision", _packed(stops.decision)) + _ANSWER % _TERNARY
    assert isinstance(stops, LeaderStops)
    if (stops.upper > np.arange(stops.upper.size)).all():  # no votes are so many
        return _LEADERS + _ANSWER % (_LEAD % "-1")
    bound = "votes[leader] >= upper[votes[leader] + votes[rival]] ? leader : -1"
    return array("upper", stops.upper) + _LEADERS + _ANSWER % (_LEAD % bound)


def _packed(decision: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Decisions in two bits each, one more than the class."""
    padded = np.zeros(-(-decision.size // 4) * 4, dtype=np.uint8)
    padded[: decision.size] = decision + 1
    return np.bitwise_or.reduce(padded.reshape(-1, 4) << np.array([0, 2, 4, 6], dtype=np.uint8), axis=1)


def _by_weight(forest: Forest, stops: WeightedStops) -> str:
    worth, n_trees = stops.worth[:, stops.order], forest.n_trees
    looks = 2.0 * stops.needed <= stops.needed[0]
    place_of = np.argsort(stops.order)
    two = len(forest.classes) == 2
    parts = [
        "typedef double tally;\n",
        f"enum {{ FIRST_LOOK = {int(looks.argmax()) if looks.any() else n_trees + 1} }};\n",
        f"static const double ALL_WEIGHT = {real(stops.total)};\n",
        array("weight", worth[0]),
        array("against", worth[1]),
        array("needed", stops.needed),
        array("place_of", place_of, smallest(n_trees)),
        "" if two else _LEADERS,
        _ANSWER % (_WEIGHTED_TWO if two else _WEIGHTED),
    ]
    return "".join(parts) + _WEIGH
