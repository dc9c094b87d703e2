// Recursions over the urn's lattice of tallies.
//
// Each goes back from all T votes to none in place, one row per mass, so that memory is O(T) for two classes and O(T²)
// for three. wins_0 and wins_1 are the masses of rfsize/stopping/urn.py; a stop that answers class 0 is wrong on the
// mass wins_1, and the other way round.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace rfsize {

// Place of a state of votes of three classes; see `ternary_index` in rfsize/stopping/rules/ternary.py.
inline std::size_t ternary_index(std::size_t asked, std::size_t n_0, std::size_t n_1) {
    return asked * (asked + 1) * (asked + 2) / 6 + n_0 * (asked + 1) - (n_0 == 0 ? 0 : n_0 * (n_0 - 1) / 2) + n_1;
}

using Int = std::int64_t;
using Ints = std::span<const std::int32_t>;
using Doubles = std::span<const double>;

inline std::size_t at(Int index) { return static_cast<std::size_t>(index); }

// From the layer of asked + 1 votes to that of asked, for the tallies from first to last.
inline void step_back(std::span<double> row, Int asked, Int first, Int last) {
    const double share = 1.0 / static_cast<double>(asked + 1);
    for (Int n = first; n <= last; ++n)
        row[at(n)] =
            (row[at(n + 1)] * static_cast<double>(n + 1) + row[at(n)] * static_cast<double>(asked + 1 - n)) * share;
}

// A row of masses, which goes back from layer to layer.
class Masses {
public:
    explicit Masses(Int n_trees) : row_(at(n_trees + 2), 0.0) {}
    explicit Masses(Doubles of) : row_(of.begin(), of.end()) {
        first_ = 0;
        last_ = static_cast<Int>(of.size()) - 1;
        while (first_ <= last_ && of[at(first_)] == 0.0) ++first_;
        while (last_ >= first_ && of[at(last_)] == 0.0) --last_;
        row_.push_back(0.0);
    }

    double& operator[](Int n) { return row_[at(n)]; }
    double operator[](Int n) const { return row_[at(n)]; }

    void step_back(Int asked, Int first, Int last) { rfsize::step_back(row_, asked, first, last); }
    // The same where only what can occur is of interest, with so many votes left.
    void step_back_within(Int asked, Int left) {
        step_back(asked, std::max<Int>(0, first_ - left), std::min(asked, last_));
    }

private:
    std::vector<double> row_;
    Int first_ = 0, last_ = -1;  // not 0 in the last layer
};

// Widen lower and upper, the lossless bounds, to all tallies whose leader's probability exceeds alpha.
//
// The probability that class 1 wins grows with its votes over the tallies that can occur, so the stops are found from
// outside in; a tally that cannot occur stops only beyond one that can and does.
inline void threshold_bounds(Doubles wins_0, Doubles wins_1, double alpha, std::span<std::int32_t> lower,
                             std::span<std::int32_t> upper) {
    const Int n_trees = static_cast<Int>(wins_0.size()) - 1;
    Masses zero(wins_0), one(wins_1);
    for (Int asked = n_trees - 1; asked > 0; --asked) {
        zero.step_back_within(asked, n_trees - asked);
        one.step_back_within(asked, n_trees - asked);
        Int low = lower[at(asked)], high = upper[at(asked)];
        const Int end = high;
        for (Int n = low + 1; n < end; ++n) {
            if (zero[n] + one[n] == 0.0) continue;
            if (zero[n] < one[n] || !(zero[n] > alpha * (zero[n] + one[n]))) break;
            low = n;
        }
        for (Int n = end - 1; n > low; --n) {
            if (zero[n] + one[n] == 0.0) continue;
            if (one[n] <= zero[n] || !(one[n] > alpha * (zero[n] + one[n]))) break;
            high = n;
        }
        lower[at(asked)] = static_cast<std::int32_t>(low);
        upper[at(asked)] = static_cast<std::int32_t>(high);
    }
}

// Mass answered 0 and answered 1 wrongly, expected trees, and unsettled mass, under the prior.
//
// Unsettled rows are answered as the whole forest would, since the remaining votes cannot change that, while no class
// exceeds alpha.
inline std::array<double, 4> binary_outcome(Doubles wins_0, Doubles wins_1, Ints lower, Ints upper, double alpha) {
    const Int n_trees = static_cast<Int>(wins_0.size()) - 1, half = n_trees / 2;
    Masses zero(wins_0), one(wins_1), wrong_0(n_trees), wrong_1(n_trees), trees(n_trees), unsettled(n_trees);
    for (Int asked = n_trees - 1; asked >= 0; --asked) {
        const Int first = std::max<Int>(lower[at(asked)] + 1, 0), last = std::min<Int>(upper[at(asked)] - 1, asked);
        for (Int n = first; n < last + 2; ++n) {
            if (lower[at(asked + 1)] < n && n < upper[at(asked + 1)]) continue;
            const double mass = zero[n] + one[n];
            const bool answers_0 = n <= lower[at(asked + 1)], decided = n > half || n + n_trees - asked - 1 <= half;
            wrong_0[n] = answers_0 ? one[n] : 0.0;
            wrong_1[n] = answers_0 ? 0.0 : zero[n];
            trees[n] = static_cast<double>(asked + 1) * mass;
            unsettled[n] = decided && std::max(zero[n], one[n]) <= alpha * mass ? mass : 0.0;
        }
        for (Masses* row : {&wrong_0, &wrong_1, &trees, &unsettled}) row->step_back(asked, first, last);
        zero.step_back_within(asked, n_trees - asked);
        one.step_back_within(asked, n_trees - asked);
    }
    return {wrong_0[0], wrong_1[0], trees[0], unsettled[0]};
}

// What stops cost under one penalty, on the way back from all votes to none.
struct Costs {
    Masses wrong_0, wrong_1, trees;
    explicit Costs(Int n_trees) : wrong_0(n_trees), wrong_1(n_trees), trees(n_trees) {}
};

// The stops that minimise expected trees plus penalised errors, for several penalties in one pass.
//
// prior weighs the final tallies, under which trees are counted; answering class 1, or class 0, is wrong on wins_0, or
// wins_1; a penalty is how many trees a unit of wrong answers is worth. lower and upper hold the lossless bounds of
// each penalty, and are overwritten.
//
// Backward induction: a tally stops where the penalty on answering now is at most the expected cost of going on. Where
// both tallies that a tally leads to answer alike, answering at once makes the same errors with fewer trees; so each
// layer's region of going on is that of the next, widened by one, or less, and only it is visited. Stops are found from
// outside in, which keeps both regions intervals.
class CheapestBounds {
public:
    CheapestBounds(Doubles prior, Doubles wins_0, Doubles wins_1, Doubles penalty_0, Doubles penalty_1,
                   Matrix<std::int32_t> lower, Matrix<std::int32_t> upper)
        : n_trees_(static_cast<Int>(prior.size()) - 1),
          mass_(prior),
          zero_(wins_0),
          one_(wins_1),
          penalty_0_(penalty_0),
          penalty_1_(penalty_1),
          lower_(lower),
          upper_(upper),
          costs_(penalty_0.size(), Costs(n_trees_)) {}

    // Mass answered 0 wrongly, mass answered 1 wrongly, expected trees, of each penalty.
    void run(const Matrix<double>& found) {
        const auto all = static_cast<double>(n_trees_);
        for (std::size_t which = 0; which < costs_.size(); ++which) {
            const Int low = lower_[which][at(n_trees_)], high = upper_[which][at(n_trees_)];
            Costs& cost = costs_[which];
            cost.wrong_0[low] = one_[low];
            cost.wrong_1[high] = zero_[high];
            cost.trees[low] = all * mass_[low];
            cost.trees[high] = all * mass_[high];
        }
        for (Int asked = n_trees_ - 1; asked >= 0; --asked) {
            for (Masses* row : {&mass_, &zero_, &one_}) row->step_back_within(asked, n_trees_ - asked);
            for (std::size_t which = 0; which < costs_.size(); ++which) layer(asked, which);
        }
        for (std::size_t which = 0; which < costs_.size(); ++which) {
            found[which][0] = costs_[which].wrong_0[0];
            found[which][1] = costs_[which].wrong_1[0];
            found[which][2] = costs_[which].trees[0];
        }
    }

private:
    Int n_trees_;
    Masses mass_, zero_, one_;
    Doubles penalty_0_, penalty_1_;
    Matrix<std::int32_t> lower_, upper_;
    std::vector<Costs> costs_;

    double go_on(const Costs& cost, std::size_t which, Int n) const {
        return penalty_0_[which] * cost.wrong_0[n] + penalty_1_[which] * cost.wrong_1[n] + cost.trees[n];
    }

    void layer(Int asked, std::size_t which) {
        Costs& cost = costs_[which];
        Int first = std::max<Int>(0, lower_[which][at(asked + 1)]),
            last = std::min<Int>(asked, upper_[which][at(asked + 1)] - 1);
        if (asked == 0) first = last = 0;
        for (Masses* row : {&cost.wrong_0, &cost.wrong_1, &cost.trees}) row->step_back(asked, first, last);
        if (asked == 0) return;
        const auto trees = static_cast<double>(asked);
        Int low = std::max<Int>(lower_[which][at(asked)], first - 1),
            high = std::min<Int>(upper_[which][at(asked)], last + 1);
        const Int end = high;
        for (Int n = low + 1; n < end; ++n) {
            if (one_[n] > zero_[n]) break;
            if (mass_[n] == 0.0) continue;
            if (penalty_0_[which] * one_[n] + trees * mass_[n] > go_on(cost, which, n)) break;
            low = n;
        }
        for (Int n = end - 1; n > low; --n) {
            if (zero_[n] > one_[n]) break;
            if (mass_[n] == 0.0) continue;
            if (zero_[n] == one_[n] || penalty_1_[which] * zero_[n] + trees * mass_[n] > go_on(cost, which, n)) break;
            high = n;
        }
        // Going on from no votes is never pruned: it reads both tallies of one vote.
        for (Int n = asked > 1 ? std::max<Int>(low, 0) : 0; n <= low; ++n) answer(cost, n, one_[n], 0.0, trees);
        for (Int n = high, stop = asked > 1 ? std::min(high, asked) + 1 : 2; n < stop; ++n)
            answer(cost, n, 0.0, zero_[n], trees);
        lower_[which][at(asked)] = static_cast<std::int32_t>(low);
        upper_[which][at(asked)] = static_cast<std::int32_t>(high);
    }

    void answer(Costs& cost, Int n, double wrong_0, double wrong_1, double trees) const {
        cost.wrong_0[n] = wrong_0;
        cost.wrong_1[n] = wrong_1;
        cost.trees[n] = trees * mass_[n];
    }
};

// Shares of the vote orders of each tally that stop nowhere before, layer by layer.
class GoingOn {
public:
    GoingOn(Ints lower, Ints upper) : lower_(lower), upper_(upper), share_(lower.size() + 1, 0.0) { share_[0] = 1.0; }

    double& operator[](Int n) { return share_[at(n)]; }

    // To the next layer; share_ then still holds what stops there.
    void step(Int asked) {
        const double share = 1.0 / static_cast<double>(asked);
        for (Int n = std::min<Int>(asked, upper_[at(asked - 1)]); n > std::max<Int>(lower_[at(asked - 1)], -1); --n) {
            const double before = n > 0 ? share_[at(n - 1)] * static_cast<double>(n) : 0.0;
            share_[at(n)] = (before + share_[at(n)] * static_cast<double>(asked - n)) * share;
        }
    }
    // The tallies of a layer that the one before it leads to.
    Int first(Int asked) const { return std::max<Int>(lower_[at(asked - 1)] + 1, 0); }
    Int last(Int asked) const { return std::min<Int>(asked, upper_[at(asked - 1)]); }

private:
    Ints lower_, upper_;
    std::vector<double> share_;
};

// What stopping at one more tally would change, for the innermost tally beside each bound; see `extensions` in
// rfsize/stopping/rules/exact.py.
//
// outcome: mass answered 0 wrongly, mass answered 1 wrongly, expected trees. changes, 2 × (T + 1) × 3 zeros: what they
// become more if lower[t] were one more, or upper[t] one less; 0 where the two would meet.
inline void extensions(Doubles prior, Doubles wins_0, Doubles wins_1, Ints lower, Ints upper, std::span<double> outcome,
                       std::span<double> changes) {
    const Int n_trees = static_cast<Int>(prior.size()) - 1;
    // The share of the vote orders of the tallies lower + 1, and upper - 1, that stop nowhere before.
    std::vector<std::array<double, 2>> arrivals(at(n_trees + 1), {0.0, 0.0});
    GoingOn going(lower, upper);
    for (Int asked = 1; asked < n_trees; ++asked) {
        going.step(asked);
        const Int low = lower[at(asked)], high = upper[at(asked)];
        if (low + 1 < high) arrivals[at(asked)] = {going[low + 1], going[high - 1]};
        for (Int n = going.first(asked); n <= going.last(asked); ++n)
            if (n <= low || n >= high) going[n] = 0.0;
    }
    Masses mass(prior), zero(wins_0), one(wins_1), wrong_0(n_trees), wrong_1(n_trees), trees(n_trees);
    for (Int asked = n_trees - 1; asked >= 0; --asked) {
        const Int first = std::max<Int>(lower[at(asked)] + 1, 0), last = std::min<Int>(upper[at(asked)] - 1, asked);
        for (Int n = first; n < last + 2; ++n) {
            if (lower[at(asked + 1)] < n && n < upper[at(asked + 1)]) continue;
            const bool answers_0 = n <= lower[at(asked + 1)];
            wrong_0[n] = answers_0 ? one[n] : 0.0;
            wrong_1[n] = answers_0 ? 0.0 : zero[n];
            trees[n] = static_cast<double>(asked + 1) * mass[n];
        }
        for (Masses* row : {&wrong_0, &wrong_1, &trees}) row->step_back(asked, first, last);
        for (Masses* row : {&mass, &zero, &one}) row->step_back(asked, 0, asked);
        if (asked == 0 || last < first) continue;
        for (const Int side : {0, 1}) {
            const Int n = side == 0 ? first : last;
            const double share = arrivals[at(asked)][at(side)];
            const auto change = changes.subspan(at((side * (n_trees + 1) + asked) * 3), 3);
            change[0] = share * ((side == 0 ? one[n] : 0.0) - wrong_0[n]);
            change[1] = share * ((side == 1 ? zero[n] : 0.0) - wrong_1[n]);
            change[2] = share * (static_cast<double>(asked) * mass[n] - trees[n]);
        }
    }
    outcome[0] = wrong_0[0];
    outcome[1] = wrong_1[0];
    outcome[2] = trees[0];
}

// Probability that class 0, and class 1, is answered, given each final tally; answers are 2 × (T + 1) zeros.
//
// The share of a tally's vote orders that stop nowhere before goes forward; every stop then adds its share times the
// hypergeometric probability of its tally.
inline void answers_by_tally(Ints lower, Ints upper, const Matrix<double>& answers) {
    const Int n_trees = static_cast<Int>(lower.size()) - 1;
    std::vector<double> log_factorial(at(n_trees + 1));
    for (Int n = 0; n <= n_trees; ++n) log_factorial[at(n)] = std::lgamma(static_cast<double>(n) + 1.0);
    GoingOn going(lower, upper);
    for (Int asked = 1; asked <= n_trees; ++asked) {
        going.step(asked);
        for (Int n = going.first(asked); n <= going.last(asked); ++n) {
            if (going[n] == 0.0 || (lower[at(asked)] < n && n < upper[at(asked)])) continue;
            const auto answer = answers[n >= upper[at(asked)] ? 1 : 0];
            const double ways = log_factorial[at(asked)] - log_factorial[at(n)] - log_factorial[at(asked - n)] -
                                log_factorial[at(n_trees)];
            const Int rest = n_trees - asked;
            for (Int tally = n; tally <= rest + n; ++tally) {
                const double ways_on =
                    log_factorial[at(rest)] - log_factorial[at(tally - n)] - log_factorial[at(rest - (tally - n))];
                answer[at(tally)] +=
                    going[n] * std::exp(ways + ways_on + log_factorial[at(tally)] + log_factorial[at(n_trees - tally)]);
            }
            going[n] = 0.0;
        }
    }
}

// ------------------------------------------------------------------------------------------ three classes

// The class that wins whatever the remaining votes are, or -1.
inline int ternary_lossless(Int n_trees, Int asked, Int n_0, Int n_1) {
    const Int n_2 = asked - n_0 - n_1;
    int leader = 0, rival = 1;
    Int most = n_0, next = n_1;
    if (n_1 > most) {
        leader = 1, rival = 0;
        most = n_1, next = n_0;
    }
    if (n_2 > most) {
        rival = leader, leader = 2;
        next = most, most = n_2;
    } else if (n_2 > next) {
        rival = 2;
        next = n_2;
    }
    const Int ahead = most - next - (n_trees - asked);
    return ahead > 0 || (ahead == 0 && leader < rival) ? leader : -1;
}

// Call visit(n_0, n_1, index) for all states of so many votes.
template <class Visit>
void each_state(Int asked, Visit&& visit) {
    for (Int n_0 = 0; n_0 <= asked; ++n_0)
        for (Int n_1 = 0; n_1 <= asked - n_0; ++n_1) visit(n_0, n_1, ternary_index(at(asked), at(n_0), at(n_1)));
}

// The same of three classes: masses of size × size states, by the votes for two of the classes.
inline void step_back_plane(std::span<double> mass, Int size, Int asked) {
    const double share = 1.0 / static_cast<double>(asked + 1);
    for (Int n_0 = 0; n_0 <= asked; ++n_0)
        for (Int n_1 = 0; n_1 <= asked - n_0; ++n_1) {
            double* own = mass.data() + n_0 * size + n_1;
            *own = (own[size] * static_cast<double>(n_0 + 1) + own[1] * static_cast<double>(n_1 + 1) +
                    *own * static_cast<double>(asked + 1 - n_0 - n_1)) *
                   share;
        }
}

// A mass of every state, which goes back from layer to layer.
class Plane {
public:
    explicit Plane(Int n_trees) : size_(n_trees + 2), mass_(at(size_ * size_), 0.0) {}
    // Of T + 1 by T + 1 masses of the last layer.
    Plane(Int n_trees, const double* of) : Plane(n_trees) {
        for (Int n_0 = 0; n_0 <= n_trees; ++n_0)
            std::copy_n(of + n_0 * (n_trees + 1), n_trees + 1, mass_.begin() + n_0 * size_);
    }

    double& operator()(Int n_0, Int n_1) { return mass_[at(n_0 * size_ + n_1)]; }
    double operator()(Int n_0, Int n_1) const { return mass_[at(n_0 * size_ + n_1)]; }

    void step_back(Int asked) { step_back_plane(mass_, size_, asked); }

private:
    Int size_;
    std::vector<double> mass_;
};

// The masses on which each of three classes wins, shape (3, T + 1, T + 1) of the last layer.
struct ThreeMasses {
    std::array<Plane, 3> of;

    ThreeMasses(Int n_trees, const double* wins)
        : of{Plane(n_trees, wins), Plane(n_trees, wins + (n_trees + 1) * (n_trees + 1)),
             Plane(n_trees, wins + 2 * (n_trees + 1) * (n_trees + 1))} {}

    void step_back(Int asked) {
        for (Plane& plane : of) plane.step_back(asked);
    }
    double total(Int n_0, Int n_1) const { return of[0](n_0, n_1) + of[1](n_0, n_1) + of[2](n_0, n_1); }
    // The most probable class, the lowest index where they tie.
    std::int8_t leader(Int n_0, Int n_1) const {
        const std::int8_t leader = of[1](n_0, n_1) > of[0](n_0, n_1);
        return of[2](n_0, n_1) > of[at(leader)](n_0, n_1) ? std::int8_t{2} : leader;
    }
};

// Fill in the earliest stops that never change the outcome; -1 elsewhere.
inline void lossless_decisions(Int n_trees, std::span<std::int8_t> decision) {
    for (Int asked = 0; asked <= n_trees; ++asked)
        each_state(asked, [&](Int n_0, Int n_1, std::size_t index) {
            decision[index] = static_cast<std::int8_t>(ternary_lossless(n_trees, asked, n_0, n_1));
        });
}

// Add to decision, the lossless stops, all states whose leader's probability exceeds alpha.
inline void threshold_decisions(Int n_trees, const double* wins, double alpha, std::span<std::int8_t> decision) {
    ThreeMasses masses(n_trees, wins);
    for (Int asked = n_trees - 1; asked > 0; --asked) {
        masses.step_back(asked);
        each_state(asked, [&](Int n_0, Int n_1, std::size_t index) {
            const std::int8_t leader = masses.leader(n_0, n_1);
            if (decision[index] < 0 && masses.of[at(leader)](n_0, n_1) > alpha * masses.total(n_0, n_1))
                decision[index] = leader;
        });
    }
}

// The stops that minimise expected trees plus penalised errors, by backward induction: decision holds the lossless
// stops and is overwritten. Returns the mass answered wrongly, and the expected trees.
inline std::pair<double, double> cheapest_decisions(Int n_trees, const double* wins, double penalty,
                                                    std::span<std::int8_t> decision) {
    ThreeMasses masses(n_trees, wins);
    Plane wrong(n_trees), trees(n_trees);
    for (Int asked = n_trees; asked >= 0; --asked) {
        if (asked < n_trees) {
            masses.step_back(asked);
            wrong.step_back(asked);
            trees.step_back(asked);
        }
        const auto so_many = static_cast<double>(asked);
        each_state(asked, [&](Int n_0, Int n_1, std::size_t index) {
            std::int8_t answer = decision[index];
            const double mass = masses.total(n_0, n_1);
            if (answer < 0 && mass > 0.0 && asked > 0) {
                const std::int8_t leader = masses.leader(n_0, n_1);
                const double stop = penalty * (mass - masses.of[at(leader)](n_0, n_1)) + so_many * mass;
                if (stop <= penalty * wrong(n_0, n_1) + trees(n_0, n_1)) answer = decision[index] = leader;
            }
            if (answer < 0) return;
            wrong(n_0, n_1) = mass - masses.of[at(answer)](n_0, n_1);
            trees(n_0, n_1) = so_many * mass;
        });
    }
    return {wrong(0, 0), trees(0, 0)};
}

// Mass answered wrongly, expected trees, and unsettled mass (see binary_outcome), under the prior.
inline std::array<double, 3> ternary_outcome(Int n_trees, const double* wins, std::span<const std::int8_t> decision,
                                             double alpha) {
    ThreeMasses masses(n_trees, wins);
    Plane wrong(n_trees), trees(n_trees), unsettled(n_trees);
    for (Int asked = n_trees; asked >= 0; --asked) {
        if (asked < n_trees) {
            masses.step_back(asked);
            for (Plane* plane : {&wrong, &trees, &unsettled}) plane->step_back(asked);
        }
        each_state(asked, [&](Int n_0, Int n_1, std::size_t index) {
            const std::int8_t answer = decision[index];
            if (answer < 0) return;
            const double mass = masses.total(n_0, n_1);
            const bool is_uncertain = masses.of[at(answer)](n_0, n_1) <= alpha * mass;
            wrong(n_0, n_1) = mass - masses.of[at(answer)](n_0, n_1);
            trees(n_0, n_1) = static_cast<double>(asked) * mass;
            unsettled(n_0, n_1) = is_uncertain && ternary_lossless(n_trees, asked, n_0, n_1) >= 0 ? mass : 0.0;
        });
    }
    return {wrong(0, 0), trees(0, 0), unsettled(0, 0)};
}

}  // namespace rfsize
