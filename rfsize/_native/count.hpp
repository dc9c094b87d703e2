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
void count_votes(const Matrix<const Vote>& vote, const Matrix<const bool>& may_vote, const Cube<std::int32_t>& counts) {
    const std::size_t n_members = vote.columns, n_blocks = counts.rows, n_classes = counts.columns;
    for (std::size_t i = 0; i < vote.rows; ++i) {
        const Vote* of = vote[i].data();
        const bool* may = may_vote[i].data();
        std::int32_t* counted = counts[i].data;
        if (n_classes == 2 && n_blocks == 1) {
            std::int32_t ones = 0, n_votes = 0;
            std::uint64_t all = 0;
            for (std::size_t member = 0; member < n_members; ++member) {
                ones += may[member] & (of[member] != 0);
                n_votes += may[member];
                all |= static_cast<std::uint64_t>(of[member]);
            }
            if (all > 1) throw std::out_of_range("a vote is for no class");
            counted[0] += n_votes - ones;
            counted[1] += ones;
            continue;
        }
        for (std::size_t first = 0; first < n_members; first += n_blocks)
            for (std::size_t block = 0; block < std::min(n_blocks, n_members - first); ++block) {
                const auto voted = static_cast<std::uint64_t>(of[first + block]);
                if (voted >= n_classes) throw std::out_of_range("a vote is for no class");
                counted[block * n_classes + voted] += may[first + block];
            }
    }
}

// Where the scores of members are: a leaf of each tree, and what it scores.
struct LeafScores {
    Cube<const std::int64_t> leaf;  // rows, members and outputs
    Matrix<const double> raw;

    double of(std::size_t row, std::size_t member, std::size_t k) const {
        return leaf.columns > 1 ? raw[at(row, member, k)][0] : raw[at(row, member, 0)][k];
    }

private:
    std::size_t at(std::size_t row, std::size_t member, std::size_t output) const {
        return checked(leaf.data[(row * leaf.rows + member) * leaf.columns + output], raw.rows);
    }
};

// Write the means of the scores of members that may vote and their scatter, as `Scores` has them. What members of one
// score take half of the time for is compiled apart, with ONE.
template <bool ONE>
void add_up_scores(const LeafScores& scores, const Matrix<const bool>& may_vote, std::span<std::int32_t> n_votes,
                   const Matrix<double>& mean, const Matrix<double>& scatter) {
    const std::size_t n_members = scores.leaf.rows, n_scores = ONE ? 1 : mean.columns;
    std::vector<double> held((n_members + 1) * n_scores);
    double* score = held.data();
    for (std::size_t i = 0; i < mean.rows; ++i) {
        std::size_t n = 0;
        for (std::size_t member = 0; member < n_members; ++member) {
            const bool votes = may_vote.data[i * n_members + member];
            if (!ONE && !votes) continue;  // of one score, a branch would take longer
            for (std::size_t k = 0; k < n_scores; ++k) score[n * n_scores + k] = scores.of(i, member, k);
            n += votes;
        }
        n_votes[i] = static_cast<std::int32_t>(n);
        double* means = mean[i].data();
        for (std::size_t k = 0; k < n_scores; ++k) {
            double total = 0.0;
            for (std::size_t j = 0; j < n; ++j) total += score[j * n_scores + k];
            means[k] = total / static_cast<double>(std::max<std::size_t>(n, 1));
        }
        double* pairs = scatter[i].data();
        std::fill_n(pairs, scatter.columns, 0.0);
        if constexpr (ONE) {
            double squares = 0.0;  // in a register, not in memory, for which each addition would wait
            for (std::size_t j = 0; j < n; ++j) squares += (score[j] - means[0]) * (score[j] - means[0]);
            pairs[0] = squares;
            continue;
        }
        for (std::size_t j = 0; j < n; ++j) {
            std::size_t pair = 0;
            for (std::size_t k = 0; k < n_scores; ++k) {
                const double away = score[j * n_scores + k] - means[k];
                for (std::size_t other = k; other < n_scores; ++other)
                    pairs[pair++] += away * (score[j * n_scores + other] - means[other]);
            }
        }
    }
}

// A number of a row, a member and an output, of which the last two may be 1 where all share what is told.
template <class T>
T shared(const Cube<const T>& of, std::size_t row, std::size_t member, std::size_t output) {
    return of.data[(row * of.rows + (of.rows > 1 ? member : 0)) * of.columns + (of.columns > 1 ? output : 0)];
}

// Add to total, of rows, parts and scores, the scores of the members that may score, and to n_scored, of rows, parts
// and bags, their number. Members are dealt into the parts in turn.
inline void add_by_part(const LeafScores& scores, const Cube<const bool>& may_score, const Cube<double>& total,
                        const Cube<std::uint16_t>& n_scored) {
    const std::size_t n_members = scores.leaf.rows, n_parts = total.rows, n_scores = total.columns,
                      n_bags = n_scored.columns;
    for (std::size_t i = 0; i < total.matrices; ++i) {
        double* sums = total[i].data;
        std::uint16_t* numbers = n_scored[i].data;
        for (std::size_t first = 0; first < n_members; first += n_parts)
            for (std::size_t part = 0; part < std::min(n_parts, n_members - first); ++part) {
                const std::size_t member = first + part;
                for (std::size_t k = 0; k < n_scores; ++k) {
                    const double adds[2] = {0.0, scores.of(i, member, k)};  // a branch would take longer
                    sums[part * n_scores + k] += adds[shared(may_score, i, member, k)];
                }
                for (std::size_t bag = 0; bag < n_bags; ++bag)
                    numbers[part * n_bags + bag] += shared(may_score, i, member, bag);
            }
    }
}

// Deal the parts of a row, of which each has so many scores, into blocks in turn, as `Blocks` has them; first are the
// first parts that score, and counted is how many these are, for each bag.
inline void deal_parts(const Matrix<const double>& parts, const Matrix<const std::uint16_t>& n_of_parts,
                       const Matrix<double>& total, const Matrix<double>& squares, const Matrix<std::int32_t>& n_scored,
                       const Matrix<double>& first, std::span<std::int64_t> counted) {
    for (std::size_t k = 0; k < parts.columns; ++k) {
        const std::size_t bag = counted.size() > 1 ? k : 0;
        std::size_t place = 0, block = 0;
        for (std::size_t part = 0; part < parts.rows; ++part, block = block + 1 < total.rows ? block + 1 : 0) {
            const double sum = parts[part][k];
            const std::uint16_t number = n_of_parts[part][bag];
            total[block][k] += sum;
            squares[block][k] += number > 1 ? sum * sum / number : sum * sum;
            if (bag == k) n_scored[block][bag] += number;
            if (place == first.rows) continue;
            first[place][k] = sum;  // 0 if the part does not score, and the next part takes the place
            place += number > 0;
        }
        counted[bag] = static_cast<std::int64_t>(place);
    }
}

// Add to total, by leaf, the values of rows, members and outputs that were seen.
inline void add_at_leaves(const Cube<const std::int64_t>& leaf, const Cube<const bool>& seen,
                          const Cube<const double>& value, std::span<double> total) {
    const std::int64_t* of = leaf.data;
    if (leaf.columns == 1 && seen.rows == leaf.rows && value.rows == 1) {  // what most frameworks' bags are
        const bool* is_seen = seen.data;
        for (std::size_t i = 0; i < leaf.matrices; ++i) {
            const double adds[2] = {0.0, value.data[i]};
            for (std::size_t member = 0; member < leaf.rows; ++member)
                total[checked(*of++, total.size())] += adds[*is_seen++];
        }
        return;
    }
    for (std::size_t i = 0; i < leaf.matrices; ++i)
        for (std::size_t member = 0; member < leaf.rows; ++member)
            for (std::size_t output = 0; output < leaf.columns; ++output)
                total[checked(*of++, total.size())] +=
                    shared(seen, i, member, output) ? shared(value, i, member, output) : 0.0;
}

}  // namespace rfsize
