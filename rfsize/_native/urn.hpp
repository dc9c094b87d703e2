// Recursions over the urn's lattice of tallies.
//
// Each goes back from all T votes to none in place, one row per mass, so that memory is O(T). wins_0 and wins_1 are the
// masses of rfsize/stopping/urn.py; a stop that answers class 0 is wrong on the mass wins_1, and the other way round.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace rfsize {

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

// Widen lower and upper, the lossless bounds, to all tallies whose leader wins with a probability above alpha.
//
// Only the class that leads the votes so far is answered. The probability that class 1 wins grows with its votes over
// the tallies that can occur, so the stops are found from outside in; a tally that cannot occur stops only beyond one
// that can and does.
inline void threshold_bounds(Doubles wins_0, Doubles wins_1, double alpha, std::span<std::int32_t> lower,
                             std::span<std::int32_t> upper) {
    const Int n_trees = static_cast<Int>(wins_0.size()) - 1;
    Masses zero(wins_0), one(wins_1);
    for (Int asked = n_trees - 1; asked > 0; --asked) {
        zero.step_back_within(asked, n_trees - asked);
        one.step_back_within(asked, n_trees - asked);
        Int low = lower[at(asked)], high = upper[at(asked)];
        for (Int n = low + 1; 2 * n < asked; ++n) {
            if (zero[n] + one[n] == 0.0) continue;
            if (!(zero[n] > alpha * (zero[n] + one[n]))) break;
            low = n;
        }
        for (Int n = high - 1; 2 * n > asked; --n) {
            if (zero[n] + one[n] == 0.0) continue;
            if (!(one[n] > alpha * (zero[n] + one[n]))) break;
            high = n;
        }
        lower[at(asked)] = static_cast<std::int32_t>(low);
        upper[at(asked)] = static_cast<std::int32_t>(high);
    }
}

// Mass answered 0 and answered 1 wrongly, and expected trees, under the prior.
inline std::array<double, 3> binary_outcome(Doubles wins_0, Doubles wins_1, Ints lower, Ints upper) {
    const Int n_trees = static_cast<Int>(wins_0.size()) - 1;
    Masses zero(wins_0), one(wins_1), wrong_0(n_trees), wrong_1(n_trees), trees(n_trees);
    for (Int asked = n_trees - 1; asked >= 0; --asked) {
        const Int first = std::max<Int>(lower[at(asked)] + 1, 0), last = std::min<Int>(upper[at(asked)] - 1, asked);
        for (Int n = first; n < last + 2; ++n) {
            if (lower[at(asked + 1)] < n && n < upper[at(asked + 1)]) continue;
            const bool answers_0 = n <= lower[at(asked + 1)];
            wrong_0[n] = answers_0 ? one[n] : 0.0;
            wrong_1[n] = answers_0 ? 0.0 : zero[n];
            trees[n] = static_cast<double>(asked + 1) * (zero[n] + one[n]);
        }
        for (Masses* row : {&wrong_0, &wrong_1, &trees}) row->step_back(asked, first, last);
        zero.step_back_within(asked, n_trees - asked);
        one.step_back_within(asked, n_trees - asked);
    }
    return {wrong_0[0], wrong_1[0], trees[0]};
}

}  // namespace rfsize
