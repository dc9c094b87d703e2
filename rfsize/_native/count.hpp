// What is added up over rows and trees: votes, scores, sums by leaf, and by bins of a score.
#pragma once

#include <algorithm>
#include <cstdint>
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

// Add to counts, of rows, blocks and classes, the votes of the members that may vote, both of rows and members. Members
// are dealt into the blocks in turn.
template <class Vote>
void count_votes(const Matrix<const Vote>& vote, const Matrix<const bool>& may_vote, std::size_t n_blocks,
                 std::size_t n_classes, std::int32_t* counts) {
    const std::size_t n_members = vote.columns;
    for (std::size_t i = 0; i < vote.rows; ++i, counts += n_blocks * n_classes) {
        const Vote* of = vote.data + i * n_members;
        const bool* may = may_vote.data + i * n_members;
        if (n_classes == 2 && n_blocks == 1) {
            std::int32_t ones = 0, n_votes = 0;
            std::uint64_t all = 0;
            for (std::size_t member = 0; member < n_members; ++member) {
                ones += may[member] & (of[member] != 0);
                n_votes += may[member];
                all |= static_cast<std::uint64_t>(of[member]);
            }
            if (all > 1) throw std::out_of_range("a vote is for no class");
            counts[0] += n_votes - ones;
            counts[1] += ones;
            continue;
        }
        for (std::size_t first = 0; first < n_members; first += n_blocks)
            for (std::size_t block = 0; block < std::min(n_blocks, n_members - first); ++block) {
                const auto voted = static_cast<std::uint64_t>(of[first + block]);
                if (voted >= n_classes) throw std::out_of_range("a vote is for no class");
                counts[block * n_classes + voted] += may[first + block];
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

// Write the means of the scores of members that may vote and their scatter, as `Scores` has them.
inline void add_up_scores(const LeafScores& scores, const Matrix<const bool>& may_vote, std::span<std::int32_t> n_votes,
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
        n_votes[i] = static_cast<std::int32_t>(n);
        for (std::size_t k = 0; k < n_scores; ++k) {
            double total = 0.0;
            for (std::size_t j = 0; j < n; ++j) total += score[j * n_scores + k];
            mean[i][k] = total / static_cast<double>(std::max<std::size_t>(n, 1));
        }
        std::fill(scatter[i].begin(), scatter[i].end(), 0.0);
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

// The same where members are one tree of one score, in half of the time.
inline void add_up_one_score(const LeafScores& scores, const Matrix<const bool>& may_vote,
                             std::span<std::int32_t> n_votes, const Matrix<double>& mean,
                             const Matrix<double>& scatter) {
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
        n_votes[i] = static_cast<std::int32_t>(n);
        mean[i][0] = middle;
        scatter[i][0] = squares;
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

// Add to total, of rows, parts and scores, the scores of the members that may score, and to n_scored, of rows, parts
// and bags, their number. Members are dealt into the parts in turn.
inline void add_by_part(const LeafScores& scores, const Shared<bool>& may_score, std::size_t n_parts,
                        std::size_t n_scores, double* total, std::uint16_t* n_scored) {
    const std::size_t n_bags = may_score.outputs;
    for (std::size_t i = 0; i < scores.n_rows; ++i, total += n_parts * n_scores, n_scored += n_parts * n_bags)
        for (std::size_t first = 0; first < scores.n_members; first += n_parts)
            for (std::size_t part = 0; part < std::min(n_parts, scores.n_members - first); ++part) {
                const std::size_t member = first + part;
                for (std::size_t k = 0; k < n_scores; ++k) {
                    const double score = scores.n_outputs > 1 ? scores.raw[scores.at(i, member, k)][0]
                                                              : scores.raw[scores.at(i, member, 0)][k];
                    total[part * n_scores + k] += may_score.at(i, member, k) ? score : 0.0;
                }
                for (std::size_t bag = 0; bag < n_bags; ++bag)
                    n_scored[part * n_bags + bag] += may_score.at(i, member, bag);
            }
}

// What blocks of members say of a row, and its first members that score, as `Blocks` has them.
struct DealtRow {
    std::size_t n_blocks, n_first;
    double *total, *squares;
    std::int32_t* n_scored;
    double* first;
    std::int64_t* counted;  // of these first members, for each bag
};

// Deal the parts of a row, of which each has so many scores, into the blocks in turn.
inline void deal_parts(const double* total, const std::uint16_t* n_scored, std::size_t n_parts, std::size_t n_scores,
                       std::size_t n_bags, const DealtRow& dealt) {
    for (std::size_t part = 0, block = 0; part < n_parts; ++part, block = block + 1 < dealt.n_blocks ? block + 1 : 0) {
        for (std::size_t k = 0; k < n_scores; ++k) {
            const std::size_t bag = n_bags > 1 ? k : 0, at = block * n_scores + k;
            const double sum = total[part * n_scores + k], number = n_scored[part * n_bags + bag];
            dealt.total[at] += sum;
            dealt.squares[at] += sum * sum / std::max(number, 1.0);
            const auto place = static_cast<std::size_t>(dealt.counted[bag]);
            if (number > 0.0 && place < dealt.n_first) dealt.first[place * n_scores + k] = sum;
        }
        for (std::size_t bag = 0; bag < n_bags; ++bag) {
            const std::uint16_t number = n_scored[part * n_bags + bag];
            dealt.n_scored[block * n_bags + bag] += number;
            dealt.counted[bag] += number > 0 && static_cast<std::size_t>(dealt.counted[bag]) < dealt.n_first;
        }
    }
}

// Add to total, by leaf, the values of rows, members and outputs that were seen.
inline void add_at_leaves(const std::int64_t* leaf, std::size_t n_rows, std::size_t n_members, std::size_t n_outputs,
                          const Shared<bool>& seen, const Shared<double>& value, std::span<double> total) {
    if (n_outputs == 1 && seen.members == n_members && value.members == 1) {  // what most frameworks' bags are
        for (std::size_t i = 0; i < n_rows; ++i, leaf += n_members) {
            const bool* of = seen.data + i * n_members;
            const double adds[2] = {0.0, value.data[i]};
            for (std::size_t member = 0; member < n_members; ++member)
                total[checked(leaf[member], total.size())] += adds[of[member]];
        }
        return;
    }
    for (std::size_t i = 0; i < n_rows; ++i)
        for (std::size_t member = 0; member < n_members; ++member)
            for (std::size_t output = 0; output < n_outputs; ++output, ++leaf)
                total[checked(*leaf, total.size())] += seen.at(i, member, output) ? value.at(i, member, output) : 0.0;
}

}  // namespace rfsize
