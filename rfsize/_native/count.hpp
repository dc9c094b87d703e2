// What is added up over rows and trees: votes, scores, sums by leaf, and by bins of a score.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "arrays.hpp"

namespace rfsize {

// An index that a framework gave: no loop may read or write beyond a table.
inline std::size_t checked(std::int64_t index, std::size_t size) {
    if (static_cast<std::uint64_t>(index) >= size)
        throw std::out_of_range("a leaf_index names a leaf that its tree does not have");
    return static_cast<std::size_t>(index);
}

// Add to counts, of rows and classes, the votes of the members that may vote, both of rows and members.
template <class Vote>
void count_votes(const Matrix<const Vote>& vote, const Matrix<const bool>& may_vote,
                 const Matrix<std::int32_t>& counts) {
    for (std::size_t i = 0; i < vote.rows; ++i) {
        const Vote* of = vote.data + i * vote.columns;
        const bool* may = may_vote.data + i * vote.columns;
        if (counts.columns == 2) {
            std::int32_t ones = 0, asked = 0;
            std::uint64_t all = 0;
            for (std::size_t member = 0; member < vote.columns; ++member) {
                ones += may[member] & (of[member] != 0);
                asked += may[member];
                all |= static_cast<std::uint64_t>(of[member]);
            }
            if (all > 1) throw std::out_of_range("a vote is for no class");
            counts[i][0] += asked - ones;
            counts[i][1] += ones;
        } else {
            for (std::size_t member = 0; member < vote.columns; ++member) {
                if (static_cast<std::uint64_t>(of[member]) >= counts.columns)
                    throw std::out_of_range("a vote is for no class");
                counts[i][static_cast<std::size_t>(of[member])] += may[member];
            }
        }
    }
}

// Where the scores of members are: a leaf of each tree, and what it scores.
struct LeafScores {
    const std::int64_t* leaf;  // rows, members and outputs
    std::size_t n_rows, n_members, n_outputs;
    Matrix<const double> raw;

    std::size_t at(std::size_t row, std::size_t member, std::size_t output) const {
        return checked(leaf[(row * n_members + member) * n_outputs + output], raw.rows);
    }
};

// The means of the scores of members that may vote and their scatter, as `Scores` has them.
inline void add_up_scores(const LeafScores& scores, const Matrix<const bool>& may_vote, std::span<std::int32_t> asked,
                          const Matrix<double>& mean, const Matrix<double>& scatter) {
    const std::size_t n_scores = mean.columns;
    std::vector<double> score(scores.n_members * n_scores);
    for (std::size_t i = 0; i < scores.n_rows; ++i) {
        std::size_t n = 0;
        for (std::size_t member = 0; member < scores.n_members; ++member) {
            if (!may_vote[i][member]) continue;
            for (std::size_t k = 0; k < n_scores; ++k)
                score[n * n_scores + k] = scores.n_outputs > 1 ? scores.raw[scores.at(i, member, k)][0]
                                                               : scores.raw[scores.at(i, member, 0)][k];
            ++n;
        }
        asked[i] = static_cast<std::int32_t>(n);
        for (std::size_t k = 0; k < n_scores; ++k) {
            double total = 0.0;
            for (std::size_t j = 0; j < n; ++j) total += score[j * n_scores + k];
            mean[i][k] = total / static_cast<double>(std::max<std::size_t>(n, 1));
        }
        for (std::size_t j = 0; j < n; ++j) {
            std::size_t pair = 0;
            for (std::size_t k = 0; k < n_scores; ++k) {
                const double away = score[j * n_scores + k] - mean[i][k];
                for (std::size_t other = k; other < n_scores; ++other)
                    scatter[i][pair++] += away * (score[j * n_scores + other] - mean[i][other]);
            }
        }
    }
}

// The same where members are one tree of one score.
inline void add_up_one_score(const LeafScores& scores, const Matrix<const bool>& may_vote,
                             std::span<std::int32_t> asked, const Matrix<double>& mean, const Matrix<double>& scatter) {
    std::vector<double> score(scores.n_members + 1);
    for (std::size_t i = 0; i < scores.n_rows; ++i) {
        std::size_t n = 0;
        for (std::size_t member = 0; member < scores.n_members; ++member) {
            score[n] = scores.raw.data[scores.at(i, member, 0) * scores.raw.columns];
            n += may_vote[i][member];
        }
        double total = 0.0, squares = 0.0;
        for (std::size_t j = 0; j < n; ++j) total += score[j];
        const double middle = total / static_cast<double>(std::max<std::size_t>(n, 1));
        for (std::size_t j = 0; j < n; ++j) squares += (score[j] - middle) * (score[j] - middle);
        asked[i] = static_cast<std::int32_t>(n);
        mean[i][0] = middle;
        scatter[i][0] = squares;
    }
}

// Votes and scores of trees, one tree's rows after those of the tree before, and where they count.
struct MoreTrees {
    std::size_t n_trees, n_rows, n_scores;
    const std::int16_t* vote;
    const bool* may_vote;
    const double* score;
    const bool* may_score;
};

// Count the scores of one more tree, as `Scores.add` does, by Welford's update.
inline void add_scores(const Matrix<const double>& score, std::span<const bool> may_score,
                       std::span<std::int32_t> asked, const Matrix<double>& mean, const Matrix<double>& scatter) {
    const std::size_t n_scores = mean.columns;
    std::vector<double> away(n_scores), left(n_scores);
    for (std::size_t i = 0; i < score.rows; ++i) {
        if (!may_score[i]) continue;
        const auto n = static_cast<double>(++asked[i]);
        for (std::size_t k = 0; k < n_scores; ++k) {
            away[k] = score[i][k] - mean[i][k];
            const double step = away[k] / n;
            mean[i][k] += step;
            left[k] = away[k] - step;  // deviation from the new mean
        }
        std::size_t pair = 0;
        for (std::size_t k = 0; k < n_scores; ++k)
            for (std::size_t other = k; other < n_scores; ++other) scatter[i][pair++] += away[k] * left[other];
    }
}

// What blocks of trees say of rows, as `TreeBlocks` has it: the blocks of a row stand after those of the row before,
// and so do the scores of its first trees.
struct DealtTrees {
    std::size_t n_blocks, n_first;
    Matrix<std::int32_t> votes;
    Matrix<double> total, squares;
    std::span<std::int32_t> asked;
    Matrix<double> first;
};

// Count what more trees say, the first of them in `block` and each in the block after. A row's blocks are far from
// those of the next, so that trees by the run cost little more than one.
inline void add_to_blocks(const MoreTrees& trees, std::size_t block, const DealtTrees& dealt) {
    for (std::size_t i = 0; i < trees.n_rows; ++i) {
        const auto asked = dealt.asked.subspan(i * dealt.n_blocks, dealt.n_blocks);
        auto n_asked = static_cast<std::size_t>(std::reduce(asked.begin(), asked.end()));
        for (std::size_t tree = 0; tree < trees.n_trees; ++tree) {
            const std::size_t of = tree * trees.n_rows + i, own = (block + tree) % dealt.n_blocks;
            const std::size_t at = i * dealt.n_blocks + own;
            if (trees.may_vote[of] && dealt.votes.columns > 0) {
                const auto vote = static_cast<std::uint64_t>(trees.vote[of]);
                if (vote >= dealt.votes.columns) throw std::out_of_range("a vote is for no class");
                ++dealt.votes[at][vote];
            }
            if (!trees.may_score[of]) continue;
            ++asked[own];
            for (std::size_t k = 0; k < trees.n_scores; ++k) {
                const double score = trees.score[of * trees.n_scores + k];
                dealt.total[at][k] += score;
                dealt.squares[at][k] += score * score;
                if (n_asked < dealt.n_first) dealt.first[i * dealt.n_first + n_asked][k] = score;
            }
            ++n_asked;
        }
    }
}

// Three dimensions, of which the last two may be 1 where members or outputs share what is told.
template <class T>
struct Shared {
    const T* data;
    std::size_t members, outputs;

    const T& at(std::size_t row, std::size_t member, std::size_t output) const {
        return data[(row * members + (members > 1 ? member : 0)) * outputs + (outputs > 1 ? output : 0)];
    }
};

// Add to total, by leaf, the values of rows, members and outputs that were seen.
inline void add_at_leaves(const std::int64_t* leaf, std::size_t n_rows, std::size_t n_members, std::size_t n_outputs,
                          const Shared<bool>& seen, const Shared<double>& value, std::span<double> total) {
    for (std::size_t i = 0; i < n_rows; ++i)
        for (std::size_t member = 0; member < n_members; ++member)
            for (std::size_t output = 0; output < n_outputs; ++output, ++leaf)
                total[checked(*leaf, total.size())] += seen.at(i, member, output) ? value.at(i, member, output) : 0.0;
}

}  // namespace rfsize
