// The urn's recursions over tallies of votes; see rfsize/stopping/vote_prior.py.
//
// Each goes back from all T votes to none in place, one layer of tallies of equally many votes per mass.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace rfsize {

using Int = std::int64_t;
using Ints = std::span<const std::int32_t>;
using Doubles = std::span<const double>;

inline constexpr std::size_t MOST_TREES = 10'001, MOST_CLASSES = 20, MOST_TALLIES = 10'000'000;

inline std::size_t at(Int index) { return static_cast<std::size_t>(index); }

// ---------------------------------------------------------------------------------------------------- two classes

// Masses by votes for class 1, from the layer of n_votes + 1 votes to that of n_votes, for the tallies from first to
// last.
inline void step_back(std::vector<double>& mass, Int n_votes, Int first, Int last) {
    const double share = 1.0 / static_cast<double>(n_votes + 1);
    double* row = mass.data();
    for (Int n = first; n <= last; ++n)
        row[n] = (row[n + 1] * static_cast<double>(n + 1) + row[n] * static_cast<double>(n_votes + 1 - n)) * share;
}

// The same of the final tallies with which a class wins, that is of few or of many votes for class 1.
inline void step_back_wins(std::vector<double>& mass, bool winner, Int n_trees, Int n_votes) {
    const Int half = n_trees / 2, fewest = winner ? std::max<Int>(0, half + 1 - (n_trees - n_votes)) : 0;
    step_back(mass, n_votes, fewest, winner ? n_votes : std::min(n_votes, half));
}

// Set low and high to the stops where the votes left cannot change the label, or the leader wins with a probability
// above alpha. wins_0 and wins_1 are the masses of the final tallies with which class 0, or 1, wins.
//
// Only the class that leads the votes so far is answered. The probability that class 1 wins grows with its votes over
// the tallies that can occur, so the stops are found from outside in; a tally that cannot occur stops only beyond one
// that can and does.
inline void set_bounds(Doubles wins_0, Doubles wins_1, double alpha, std::span<std::int32_t> low,
                       std::span<std::int32_t> high) {
    const Int n_trees = static_cast<Int>(wins_0.size()) - 1;
    std::vector<double> masses_0(wins_0.begin(), wins_0.end()), masses_1(wins_1.begin(), wins_1.end());
    const double *zero = masses_0.data(), *one = masses_1.data();
    low.back() = static_cast<std::int32_t>(n_trees / 2);
    high.back() = low.back() + 1;
    for (Int n_votes = n_trees - 1; n_votes >= 0; --n_votes) {
        step_back_wins(masses_0, false, n_trees, n_votes);
        step_back_wins(masses_1, true, n_trees, n_votes);
        Int lowest = std::max<Int>(n_trees / 2 - n_trees + n_votes, -1), highest = std::min(n_trees / 2, n_votes) + 1;
        for (Int n = lowest + 1; 2 * n < n_votes; ++n) {
            if (zero[n] + one[n] == 0.0) continue;
            if (!(zero[n] > alpha * (zero[n] + one[n]))) break;
            lowest = n;
        }
        for (Int n = highest - 1; 2 * n > n_votes; --n) {
            if (zero[n] + one[n] == 0.0) continue;
            if (!(one[n] > alpha * (zero[n] + one[n]))) break;
            highest = n;
        }
        low[at(n_votes)] = static_cast<std::int32_t>(lowest);
        high[at(n_votes)] = static_cast<std::int32_t>(highest);
    }
}

// Of the mass of the final tallies with which one class wins: what gets the other's label, and the expected trees.
inline std::array<double, 2> bounds_outcome(Doubles wins, bool winner, Ints low, Ints high) {
    const Int n_trees = static_cast<Int>(wins.size()) - 1;
    std::vector<double> mass(wins.begin(), wins.end()), wrong(mass.size()), trees(mass.size());
    for (Int n_votes = n_trees - 1; n_votes >= 0; --n_votes) {
        const Int first = std::max<Int>(low[at(n_votes)] + 1, 0), last = std::min<Int>(high[at(n_votes)] - 1, n_votes);
        for (Int n = first; n < last + 2; ++n) {
            if (low[at(n_votes + 1)] < n && n < high[at(n_votes + 1)]) continue;
            const bool label = n > low[at(n_votes + 1)];
            wrong[at(n)] = label == winner ? 0.0 : mass[at(n)];
            trees[at(n)] = static_cast<double>(n_votes + 1) * mass[at(n)];
        }
        for (auto* masses : {&wrong, &trees}) step_back(*masses, n_votes, first, last);
        step_back_wins(mass, winner, n_trees, n_votes);
    }
    return {wrong[0], trees[0]};
}

// ---------------------------------------------------------------------------------------------------- any classes

// All tallies of up to T votes for K classes, in the order of their numbers of votes. Let s_k be the votes for the
// classes up to k. A tally of t votes is number C(t + K − 1, K) + Σ C(s_k + k, k + 1), where the sum is over k < K − 1.
class TallyOrder {
public:
    TallyOrder(std::size_t n_trees, std::size_t n_classes)
        : n_trees_(n_trees), n_classes_(n_classes), choose_(n_classes * (n_trees + 2)) {
        // C(s + k, k + 1) by Pascal's rule, from C(s, 1) on.
        for (std::size_t s = 0; s < n_trees + 2; ++s) choose_[s] = s;
        for (std::size_t k = 1; k < n_classes; ++k)
            for (std::size_t s = 1; s < n_trees + 2; ++s) choose(k, s) = choose(k, s - 1) + choose(k - 1, s);
    }

    std::size_t n_trees() const { return n_trees_; }
    std::size_t n_classes() const { return n_classes_; }
    std::size_t size() const { return first(n_trees_ + 1); }
    // The number of the first tally of t votes, and how many there are.
    std::size_t first(std::size_t t) const { return choose_[(n_classes_ - 1) * (n_trees_ + 2) + t]; }
    std::size_t size_of_layer(std::size_t t) const { return first(t + 1) - first(t); }

    template <class Votes>
    std::size_t number(std::size_t t, const Votes& votes) const {
        std::size_t number = first(t), sum = 0;
        for (std::size_t k = 0; k + 1 < n_classes_; ++k) {
            sum += static_cast<std::size_t>(votes(k));
            number += choose_[k * (n_trees_ + 2) + sum];
        }
        return number;
    }

    // Call done(i, votes, step) with the tallies of t votes in their order. i counts from the first; i + step[k] is the
    // place among the tallies of t + 1 votes of this one with another vote for class k. Places never grow as votes are
    // taken back, so a layer of masses can be overwritten from its first place on.
    template <class Done>
    void each_of(std::size_t t, Done&& done) const {
        const std::size_t last = n_classes_ - 1;
        std::vector<std::size_t> sum(last, 0), votes(n_classes_, 0), step(n_classes_, 0);
        std::size_t changed = last - 1;  // the last of the sums that are others than before
        for (std::size_t i = 0, n = size_of_layer(t); i < n; ++i) {
            votes[changed + 1] = (changed + 1 < last ? sum[changed + 1] : t) - sum[changed];
            for (std::size_t k = changed + 1; k-- > 0;) {
                votes[k] = sum[k] - (k > 0 ? sum[k - 1] : 0);
                step[k] = step[k + 1] + (k > 0 ? choose_[(k - 1) * (n_trees_ + 2) + sum[k] + 1] : 1);
            }
            done(i, std::as_const(votes), std::as_const(step));
            for (changed = 0; changed < last && sum[changed] == (changed + 1 < last ? sum[changed + 1] : t); ++changed)
                sum[changed] = 0;
            if (changed < last) ++sum[changed];
        }
    }

private:
    std::size_t n_trees_, n_classes_;
    std::vector<std::size_t> choose_;

    std::size_t& choose(std::size_t k, std::size_t s) { return choose_[k * (n_trees_ + 2) + s]; }
};

// Masses of W kinds at each tally of a layer.
template <std::size_t W>
using Layer = std::vector<std::array<double, W>>;

// The masses before one more vote, from the layer of t + 1 votes.
template <std::size_t W>
std::array<double, W> before(std::size_t t, const Layer<W>& layer, std::size_t i, const std::vector<std::size_t>& votes,
                             const std::vector<std::size_t>& step) {
    std::array<double, W> sum{};
    for (std::size_t k = 0; k < votes.size(); ++k) {
        const auto more = static_cast<double>(votes[k] + 1);
        for (std::size_t w = 0; w < W; ++w) sum[w] += layer[i + step[k]][w] * more;
    }
    for (double& mass : sum) mass /= static_cast<double>(t + 1);
    return sum;
}

// The class with the most votes, and how far it is ahead of the next; ties go to the lowest class.
struct Lead {
    std::size_t leader = 0, votes;
    bool comes_first;

    explicit Lead(const std::vector<std::size_t>& of) {
        for (std::size_t k = 1; k < of.size(); ++k)
            if (of[k] > of[leader]) leader = k;
        std::size_t next = leader == 0 ? 1 : 0;
        for (std::size_t k = next + 1; k < of.size(); ++k)
            if (k != leader && of[k] > of[next]) next = k;
        votes = of[leader] - of[next];
        comes_first = leader < next;
    }
};

// Whether rows stop at the tally of a number, for which a table has one bit each.
inline bool is_marked(std::span<const std::uint8_t> bits, std::size_t number) {
    return bits[number >> 3] >> (number & 7) & 1;
}

// The tallies at which rows stop.
struct TallyTable {
    TallyOrder order;
    std::vector<std::uint8_t> bits;

    template <class Votes>
    bool stops(std::size_t n_votes, const Votes& votes) const {
        return is_marked(bits, order.number(n_votes, votes));
    }
};

// Classes whose masses go back together; all at once would take much memory.
inline constexpr std::size_t TOGETHER_BACK = 4;

// Mark the tallies that are led by a class which wins with a probability above alpha. prior holds the masses of the
// final tallies.
inline void mark_stops(const TallyOrder& order, Doubles prior, double alpha, std::span<std::uint8_t> bits) {
    for (std::size_t first = 0; first < order.n_classes(); first += TOGETHER_BACK) {
        Layer<TOGETHER_BACK + 1> masses(prior.size());  // of these classes' wins, and all
        order.each_of(order.n_trees(), [&](std::size_t i, const auto& votes, const auto&) {
            const std::size_t winner = Lead(votes).leader - first;
            if (winner < TOGETHER_BACK) masses[i][winner] = prior[i];
            masses[i][TOGETHER_BACK] = prior[i];
        });
        for (std::size_t t = order.n_trees() - 1; t > 0; --t)
            order.each_of(t, [&](std::size_t i, const auto& votes, const auto& step) {
                masses[i] = before(t, masses, i, votes, step);
                const Lead lead(votes);
                const std::size_t leader = lead.leader - first;
                if (leader >= TOGETHER_BACK || lead.votes == 0 ||
                    !(masses[i][leader] > alpha * masses[i][TOGETHER_BACK]))
                    return;
                const std::size_t number = order.first(t) + i;
                bits[number >> 3] |= static_cast<std::uint8_t>(1U << (number & 7));
            });
    }
}

// By the class that wins all votes: its mass, the mass that gets another answer, and the expected trees.
inline void tally_outcome(const TallyOrder& order, Doubles prior, std::span<const std::uint8_t> bits,
                          const Matrix<double>& outcome) {
    const std::size_t n_trees = order.n_trees();
    for (std::size_t first = 0; first < order.n_classes(); first += TOGETHER_BACK) {
        Layer<TOGETHER_BACK> mass(prior.size()), wrong(prior.size()), trees(prior.size());
        order.each_of(n_trees, [&](std::size_t i, const auto& votes, const auto&) {
            const std::size_t winner = Lead(votes).leader - first;
            if (winner >= TOGETHER_BACK) return;
            mass[i][winner] = prior[i];
            trees[i][winner] = static_cast<double>(n_trees) * prior[i];
        });
        for (std::size_t t = n_trees; t-- > 0;)
            order.each_of(t, [&](std::size_t i, const auto& votes, const auto& step) {
                mass[i] = before(t, mass, i, votes, step);
                const Lead lead(votes);
                if (t == 0 || (lead.votes + lead.comes_first <= n_trees - t && !is_marked(bits, order.first(t) + i))) {
                    wrong[i] = before(t, wrong, i, votes, step);
                    trees[i] = before(t, trees, i, votes, step);
                    return;
                }
                for (std::size_t w = 0; w < TOGETHER_BACK; ++w) {
                    wrong[i][w] = first + w == lead.leader ? 0.0 : mass[i][w];
                    trees[i][w] = static_cast<double>(t) * mass[i][w];
                }
            });
        for (std::size_t w = 0; w < TOGETHER_BACK && first + w < order.n_classes(); ++w) {
            const std::span<double> out = outcome[first + w];
            out[0] = mass[0][w];
            out[1] = wrong[0][w];
            out[2] = trees[0][w];
        }
    }
}

// Take some votes of each final tally back at random, and draw as many anew, each class with a weight of its votes so
// far plus one. This smooths a histogram of tallies; a uniform one stays as it is.
inline void redraw(const TallyOrder& order, std::size_t n_redrawn, std::span<double> prior) {
    Layer<1> masses(prior.size());
    for (std::size_t i = 0; i < prior.size(); ++i) masses[i][0] = prior[i];
    const std::size_t fewest = order.n_trees() - n_redrawn;
    for (std::size_t t = order.n_trees(); t-- > fewest;)
        order.each_of(t, [&](std::size_t i, const auto& votes, const auto& step) {
            masses[i] = before(t, masses, i, votes, step);
        });
    for (std::size_t t = fewest; t < order.n_trees(); ++t) {
        Layer<1> more(prior.size());
        order.each_of(t, [&](std::size_t i, const auto& votes, const auto& step) {
            const double share = masses[i][0] / static_cast<double>(t + order.n_classes());
            for (std::size_t k = 0; k < votes.size(); ++k)
                more[i + step[k]][0] += share * static_cast<double>(votes[k] + 1);
        });
        masses = std::move(more);
    }
    for (std::size_t i = 0; i < prior.size(); ++i) prior[i] = masses[i][0];
}

}  // namespace rfsize
