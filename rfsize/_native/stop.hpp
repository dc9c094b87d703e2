// When a row may stop asking trees. Each rule is a class that one loop (predict.hpp) asks:
//
//     enter(rows), leave(n)       take the state of some rows from where the caller keeps it, and put it back
//     add(member, output, ...)    add what the leaves of one tree say of the n rows
//     looks(asked)                whether any row may stop after so many members
//     settle(asked, n)            settle the rows that so many members are enough for, and count them
//     keep(kept)                  go on with these of the rows alone
//
// State lies by columns, a class or a score each, so that loops over rows become vector code.
#pragma once

#include <array>
#include <variant>

#include "link.hpp"
#include "walk.hpp"

namespace rfsize {

// Trees asked in the first stage, and how many times as many are asked by the end of the next.
inline constexpr std::size_t FIRST_STAGE = 4, STAGES_GROW = 4;

// Where answers go: the label of each row, negative before, and how many members it asked.
struct Answers {
    std::int64_t *label, *asked;
};

// What all rules know of the rows that are going.
class Going {
public:
    explicit Going(std::size_t most) : rows_(most), settled_(most) {}

    void enter(std::span<const std::uint32_t> rows) {
        std::copy(rows.begin(), rows.end(), rows_.begin());
        std::fill_n(settled_.begin(), rows.size(), std::uint8_t{0});
    }
    void keep(std::span<const std::uint32_t> kept) {
        for (std::size_t j = 0; j < kept.size(); ++j) {
            rows_[j] = rows_[kept[j]];
            settled_[j] = 0;
        }
    }
    bool is_settled(std::size_t j) const { return settled_[j] != 0; }

protected:
    std::vector<std::uint32_t> rows_;
    std::vector<std::uint8_t> settled_;

    void answer(std::size_t j, std::int64_t label, std::size_t asked, const Answers& answers) {
        settled_[j] = 1;
        answers.label[rows_[j]] = label;
        answers.asked[rows_[j]] = static_cast<std::int64_t>(asked);
    }
};

// Numbers of rows by columns.
template <class T>
class ByColumns {
public:
    ByColumns(std::size_t columns, std::size_t most) : columns_(columns), most_(most), data_(columns * most) {}

    T* operator[](std::size_t column) { return data_.data() + column * most_; }

    void enter(const Matrix<T>& from, std::span<const std::uint32_t> rows) {
        for (std::size_t column = 0; column < columns_; ++column)
            for (std::size_t j = 0; j < rows.size(); ++j)
                (*this)[column][j] = from.data[rows[j] * from.columns + column];
    }
    void leave(const Matrix<T>& to, const std::vector<std::uint32_t>& rows, std::size_t n) {
        for (std::size_t column = 0; column < columns_; ++column)
            for (std::size_t j = 0; j < n; ++j) to.data[rows[j] * to.columns + column] = (*this)[column][j];
    }
    void keep(std::span<const std::uint32_t> kept) {
        for (std::size_t column = 0; column < columns_; ++column)
            for (std::size_t j = 0; j < kept.size(); ++j) (*this)[column][j] = (*this)[column][kept[j]];
    }

private:
    std::size_t columns_, most_;
    std::vector<T> data_;
};

// Add the values of the leaves that rows reach to their sums.
template <class Real, class Leaves>
void add_values(const Forest& forest, std::size_t output, const Leaves& leaves, std::size_t n, ByColumns<Real>& sums) {
    const Real* value = forest.values<Real>(leaves);
    const std::size_t width = forest.nodes().width;
    // Either several trees make up a member, or a leaf has several scores.
    for (std::size_t part = 0; part < width; ++part) {
        Real* sum = sums[output + part];
        for (std::size_t j = 0; j < n; ++j) sum[j] += value[leaves.at[j] * width + part];
    }
}

// ------------------------------------------------------------------------------------------ averaged scores

// See `ScoreStop` in rfsize/stopping/rules/on_sums.py.
struct ScoreStop {
    std::size_t first_look, every;
    std::vector<double> low, high, needed, drift;

    std::size_t n_members() const { return needed.size() - 1; }
};

// Sums of scores, which stop by a table or where the trees left cannot change the label.
template <class Real>
class ByScores : public Going {
public:
    static constexpr bool stops = true;

    ByScores(const Forest& forest, const ScoreStop& stop, Matrix<Real> total, Answers answers, std::size_t most)
        : Going(most), forest_(forest), stop_(stop), total_(total), answers_(answers), sums_(total.columns, most) {}

    std::size_t first_stage() const { return std::max(stop_.first_look, FIRST_STAGE); }

    void enter(std::span<const std::uint32_t> rows) {
        Going::enter(rows);
        sums_.enter(total_, rows);
    }
    void leave(std::size_t n) { sums_.leave(total_, rows_, n); }
    void keep(std::span<const std::uint32_t> kept) {
        Going::keep(kept);
        sums_.keep(kept);
    }

    template <class Leaves>
    void add(std::size_t, std::size_t output, const Leaves& leaves, std::size_t n) {
        add_values(forest_, output, leaves, n, sums_);
    }

    bool looks(std::size_t asked) const {
        return asked >= stop_.first_look && asked != stop_.n_members() && (asked - stop_.first_look) % stop_.every == 0;
    }

    std::size_t settle(std::size_t asked, std::size_t n) {
        return total_.columns == 1 ? settle_one(asked, n) : settle_several(asked, n);
    }

private:
    const Forest& forest_;
    const ScoreStop& stop_;
    Matrix<Real> total_;
    Answers answers_;
    ByColumns<Real> sums_;

    std::size_t settle_one(std::size_t asked, std::size_t n) {
        const double low = stop_.low[asked], high = stop_.high[asked];
        const Real* sum = sums_[0];
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            const auto score = static_cast<double>(sum[j]);
            if ((score <= low || score >= high) && !settled_[j]) {
                answer(j, score > low, asked, answers_);
                ++settled;
            }
        }
        return settled;
    }

    std::size_t settle_several(std::size_t asked, std::size_t n) {
        const double left = 1.0 - static_cast<double>(asked) / static_cast<double>(stop_.n_members()),
                     lead = stop_.needed[asked];
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            std::int64_t leader = 0;
            double most = static_cast<double>(sums_[0][j]) - left * stop_.drift[0],
                   next = -std::numeric_limits<double>::infinity();
            for (std::size_t other = 1; other < total_.columns; ++other) {
                const double score = static_cast<double>(sums_[other][j]) - left * stop_.drift[other];
                if (score > most) {
                    leader = static_cast<std::int64_t>(other);
                    next = most;
                    most = score;
                } else {
                    next = std::max(score, next);
                }
            }
            if (most - next >= lead && !settled_[j]) {
                answer(j, leader, asked, answers_);
                ++settled;
            }
        }
        return settled;
    }
};

// Sums of the scores of all trees.
template <class Real>
class AllScores : public Going {
public:
    static constexpr bool stops = false;

    AllScores(const Forest& forest, Matrix<Real> total, std::size_t most)
        : Going(most), forest_(forest), total_(total), sums_(total.columns, most) {}

    std::size_t first_stage() const { return forest_.n_members(); }
    void enter(std::span<const std::uint32_t> rows) {
        Going::enter(rows);
        sums_.enter(total_, rows);
    }
    void leave(std::size_t n) { sums_.leave(total_, rows_, n); }
    void keep(std::span<const std::uint32_t>) {}
    template <class Leaves>
    void add(std::size_t, std::size_t output, const Leaves& leaves, std::size_t n) {
        add_values(forest_, output, leaves, n, sums_);
    }
    bool looks(std::size_t) const { return false; }
    std::size_t settle(std::size_t, std::size_t) { return 0; }

private:
    const Forest& forest_;
    Matrix<Real> total_;
    ByColumns<Real> sums_;
};

// --------------------------------------------------------------------------------------- spread of a row's own scores

// See `SpreadStops` in rfsize/stopping/rules/spread.py; a tree alone scores scale times its value, and start more.
struct SpreadStop {
    double limit;
    std::size_t every;
    std::vector<double> pooled;
    double weight;
    Link link;
    double slope, scale;
    std::vector<double> start;
};

// Rows stop where the spread of their scores says that what is predicted will hardly change.
template <class Real>
class BySpread : public Going {
public:
    static constexpr bool stops = true;

    BySpread(const Forest& forest, const SpreadStop& stop, Matrix<Real> total, std::int64_t* asked, std::size_t most)
        : Going(most),
          forest_(forest),
          stop_(stop),
          total_(total),
          asked_(asked),
          sums_(total.columns, most),
          values_(total.columns, most),
          squares_(total.columns, most),
          mean_(total.columns),
          predicted_(total.columns) {}

    std::size_t first_stage() const { return forest_.n_members(); }

    void enter(std::span<const std::uint32_t> rows) {
        Going::enter(rows);
        sums_.enter(total_, rows);
        for (std::size_t k = 0; k < total_.columns; ++k) {
            std::fill_n(values_[k], rows.size(), 0.0);
            std::fill_n(squares_[k], rows.size(), 0.0);
        }
    }
    void leave(std::size_t n) { sums_.leave(total_, rows_, n); }
    void keep(std::span<const std::uint32_t> kept) {
        Going::keep(kept);
        sums_.keep(kept);
        values_.keep(kept);
        squares_.keep(kept);
    }

    template <class Leaves>
    void add(std::size_t, std::size_t output, const Leaves& leaves, std::size_t n) {
        const Real* value = forest_.values<Real>(leaves);
        const std::size_t width = forest_.nodes().width;
        for (std::size_t part = 0; part < width; ++part) {
            const std::size_t k = output + part;
            for (std::size_t j = 0; j < n; ++j) {
                if (settled_[j]) continue;
                const Real added = value[leaves.at[j] * width + part];
                sums_[k][j] += added;
                values_[k][j] += static_cast<double>(added);
                squares_[k][j] += static_cast<double>(added) * static_cast<double>(added);
            }
        }
    }

    bool looks(std::size_t asked) const { return asked % stop_.every == 0 && asked != forest_.n_members(); }

    std::size_t settle(std::size_t asked, std::size_t n) {
        std::size_t settled = 0;
        const auto trees = static_cast<double>(asked), all = static_cast<double>(forest_.n_members());
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j] || !(left_to_change(j, trees, all) <= stop_.limit)) continue;
            for (std::size_t k = 0; k < total_.columns; ++k)
                sums_[k][j] = static_cast<Real>(stop_.start[k] + (mean_[k] - stop_.start[k]) * all / stop_.scale);
            settled_[j] = 1;
            asked_[rows_[j]] = static_cast<std::int64_t>(asked);
            ++settled;
        }
        return settled;
    }

private:
    const Forest& forest_;
    const SpreadStop& stop_;
    Matrix<Real> total_;
    std::int64_t* asked_;
    ByColumns<Real> sums_;
    ByColumns<double> values_, squares_;
    std::vector<double> mean_, predicted_;

    // What is compared with the limit; fills mean_ with mean scores.
    double left_to_change(std::size_t j, double asked, double all) {
        for (std::size_t k = 0; k < mean_.size(); ++k) {
            mean_[k] = stop_.start[k] + stop_.scale * values_[k][j] / asked;
            predicted_[k] = stop_.slope * mean_[k];
        }
        if (stop_.link == Link::SOFTMAX)
            softmax(std::span(predicted_));
        else if (stop_.link != Link::IDENTITY && stop_.link != Link::SQUARE)
            for (double& each : predicted_) each = linked(each, stop_.link);
        double largest = 0.0;
        for (std::size_t k = 0; k < mean_.size(); ++k) {
            const double sum = values_[k][j];
            const double squares = std::max(stop_.scale * stop_.scale * (squares_[k][j] - sum * sum / asked), 0.0);
            const double variance =
                (stop_.weight * stop_.pooled[k] * stop_.pooled[k] + squares) / (stop_.weight + asked - 1.0);
            largest = std::max(largest, std::sqrt(variance) * steepness(k));
        }
        return largest * std::sqrt(1.0 / asked - 1.0 / all);
    }

    double steepness(std::size_t k) const {
        switch (stop_.link) {
            case Link::IDENTITY: return stop_.slope;
            case Link::EXP: return stop_.slope * predicted_[k];
            case Link::SQUARE: return 2.0 * stop_.slope * stop_.slope * std::abs(mean_[k]);
            default: return stop_.slope * predicted_[k] * (1.0 - predicted_[k]);
        }
    }
};

// ------------------------------------------------------------------------------------------ votes

// Place of a state of votes of three classes; see `ternary_index` in rfsize/stopping/rules/ternary.py.
inline std::size_t ternary_index(std::size_t asked, std::size_t n_0, std::size_t n_1) {
    return asked * (asked + 1) * (asked + 2) / 6 + n_0 * (asked + 1) - (n_0 == 0 ? 0 : n_0 * (n_0 - 1) / 2) + n_1;
}

// Kinds of stops on votes, as rfsize/stopping/rules has them. Rows stop after every so many members, or after the
// last.
struct NeverStops {};
struct BinaryStops {
    std::size_t every;
    std::vector<std::int32_t> lower, upper;
};
struct TernaryStops {
    std::size_t every;
    std::vector<std::int8_t> decision;
};
struct LeaderStops {
    std::size_t every;
    std::vector<std::int32_t> upper;
};
struct WeightedStops {
    std::vector<double> weight, needed;
};
using VoteStop = std::variant<NeverStops, BinaryStops, TernaryStops, LeaderStops, WeightedStops>;

// What a tree alone scores, where members are a tree of each class: factor times its value, and more of each class.
template <class Real>
struct TreeAlone {
    Real factor;
    std::vector<Real> more;
};

// The vote of a member of one tree is that of the leaf; of several, the class of the largest score.
template <class Real>
class Ballot {
public:
    Ballot(const Forest& forest, const TreeAlone<Real>& alone, std::size_t most)
        : forest_(forest), alone_(alone), vote_(most), best_(most) {}

    template <class Leaves>
    void add(std::size_t output, const Leaves& leaves, std::size_t n) {
        if (forest_.n_outputs() == 1) {
            const std::uint16_t* vote = forest_.votes(leaves);
            for (std::size_t j = 0; j < n; ++j) vote_[j] = vote[leaves.at[j]];
            return;
        }
        const Real* value = forest_.values<Real>(leaves);
        for (std::size_t j = 0; j < n; ++j) {
            const Real score = alone_.more[output] + value[leaves.at[j]] * alone_.factor;
            if (output == 0 || score > best_[j]) {
                best_[j] = score;
                vote_[j] = static_cast<std::uint16_t>(output);
            }
        }
    }
    const std::uint16_t* vote() const { return vote_.data(); }

private:
    const Forest& forest_;
    const TreeAlone<Real>& alone_;
    std::vector<std::uint16_t> vote_;
    std::vector<Real> best_;
};

// Votes, or their weights, which stop by a table or where the votes left cannot change the majority.
template <class Real, class Stop>
class ByVotes : public Going {
public:
    static constexpr bool stops = !std::is_same_v<Stop, NeverStops>;

    using Count = std::conditional_t<std::is_same_v<Stop, WeightedStops>, double, std::int32_t>;

    ByVotes(const Forest& forest, const TreeAlone<Real>& alone, const Stop& stop, Matrix<Count> counts, Answers answers,
            std::size_t most)
        : Going(most),
          forest_(forest),
          stop_(stop),
          counts_(counts),
          answers_(answers),
          ballot_(forest, alone, most),
          tally_(counts.columns, most),
          leaders_(follows() ? 2 : 0, most),
          kept_leaders_(follows() ? 2 * counts.rows : 0) {
        for (std::size_t i = 1; i < kept_leaders_.size(); i += 2) kept_leaders_[i] = 1;
    }

    std::size_t first_stage() const { return std::is_same_v<Stop, NeverStops> ? forest_.n_members() : FIRST_STAGE; }

    void enter(std::span<const std::uint32_t> rows) {
        Going::enter(rows);
        tally_.enter(counts_, rows);
        if (follows()) leaders_.enter(all_leaders(), rows);
    }
    void leave(std::size_t n) {
        tally_.leave(counts_, rows_, n);
        if (follows()) leaders_.leave(all_leaders(), rows_, n);
    }
    void keep(std::span<const std::uint32_t> kept) {
        Going::keep(kept);
        tally_.keep(kept);
        if (follows()) leaders_.keep(kept);
    }

    template <class Leaves>
    void add(std::size_t member, std::size_t output, const Leaves& leaves, std::size_t n) {
        ballot_.add(output, leaves, n);
        if (output + 1 == forest_.n_outputs()) count(weight(member), n);
    }

    bool looks(std::size_t asked) const {
        if constexpr (std::is_same_v<Stop, NeverStops>)
            return false;
        else if constexpr (std::is_same_v<Stop, WeightedStops>)
            return 2.0 * stop_.needed[asked] <= stop_.needed[0];  // else no lead exceeds the weight asked
        else
            return asked % stop_.every == 0 || asked == forest_.n_members();
    }

    std::size_t settle(std::size_t asked, std::size_t n) {
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j]) continue;
            const std::int64_t label = decided(asked, j);
            if (label < 0) continue;
            answer(j, label, asked, answers_);
            ++settled;
        }
        return settled;
    }

private:
    const Forest& forest_;
    const Stop& stop_;
    Matrix<Count> counts_;
    Answers answers_;
    Ballot<Real> ballot_;
    ByColumns<Count> tally_;
    ByColumns<std::uint16_t> leaders_;
    std::vector<std::uint16_t> kept_leaders_;

    // Whether decisions go by who leads, and who is next; of two classes the counts themselves tell sooner.
    bool follows() const {
        return std::is_same_v<Stop, LeaderStops> || (std::is_same_v<Stop, WeightedStops> && counts_.columns > 2);
    }
    Matrix<std::uint16_t> all_leaders() { return {kept_leaders_.data(), counts_.rows, 2}; }

    Count weight([[maybe_unused]] std::size_t member) const {
        if constexpr (std::is_same_v<Stop, WeightedStops>)
            return stop_.weight[member];
        else
            return 1;
    }

    void count(Count weight, std::size_t n) {
        const std::uint16_t* vote = ballot_.vote();
        if (counts_.columns == 2 && !follows()) {
            Count *zero = tally_[0], *one = tally_[1];
            for (std::size_t j = 0; j < n; ++j) {
                zero[j] += !settled_[j] && vote[j] == 0 ? weight : Count{0};
                one[j] += !settled_[j] && vote[j] == 1 ? weight : Count{0};
            }
            return;
        }
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j]) continue;
            tally_[vote[j]][j] += weight;
            if (follows()) move_up(vote[j], j);
        }
    }

    // Only the class that got the vote can move up, so that it need be compared with the leader and the next alone.
    void move_up(std::uint16_t one, std::size_t j) {
        std::uint16_t &leader = leaders_[0][j], &rival = leaders_[1][j];
        if (one == leader) return;
        if (is_before(one, leader, j)) {
            rival = leader;
            leader = one;
        } else if (one != rival && is_before(one, rival, j)) {
            rival = one;
        }
    }
    // Ties go to the lowest class.
    bool is_before(std::uint16_t one, std::uint16_t other, std::size_t j) {
        const Count of_one = tally_[one][j], of_other = tally_[other][j];
        return of_one > of_other || (of_one == of_other && one < other);
    }

    // The label of a row after so many members, or -1.
    std::int64_t decided([[maybe_unused]] std::size_t asked, [[maybe_unused]] std::size_t j) {
        if constexpr (std::is_same_v<Stop, BinaryStops>) {
            const std::int32_t votes = tally_[1][j], low = stop_.lower[asked];
            return votes <= low || votes >= stop_.upper[asked] ? votes > low : -1;
        } else if constexpr (std::is_same_v<Stop, TernaryStops>) {
            return stop_.decision[ternary_index(asked, static_cast<std::size_t>(tally_[0][j]),
                                                static_cast<std::size_t>(tally_[1][j]))];
        } else if constexpr (std::is_same_v<Stop, LeaderStops>) {
            const std::uint16_t leader = leaders_[0][j], rival = leaders_[1][j];
            const std::int64_t most = tally_[leader][j], next = tally_[rival][j];
            const bool is_settled =
                most - next + (leader < rival) > static_cast<std::int64_t>(forest_.n_members() - asked);
            return is_settled || most >= stop_.upper[static_cast<std::size_t>(most + next)] ? leader : -1;
        } else if constexpr (std::is_same_v<Stop, WeightedStops>) {
            std::uint16_t leader = tally_[1][j] > tally_[0][j], rival = 1 - leader;
            if (follows()) {
                leader = leaders_[0][j];
                rival = leaders_[1][j];
            }
            const double lead = tally_[leader][j] - tally_[rival][j];
            return lead > stop_.needed[asked] || (lead == stop_.needed[asked] && leader < rival) ? leader : -1;
        } else {
            return -1;
        }
    }
};

// Write down the vote of every member.
template <class Real>
class EveryVote : public Going {
public:
    static constexpr bool stops = false;

    EveryVote(const Forest& forest, const TreeAlone<Real>& alone, Matrix<std::int64_t> votes, std::size_t most)
        : Going(most), forest_(forest), votes_(votes), ballot_(forest, alone, most) {}

    std::size_t first_stage() const { return forest_.n_members(); }
    void enter(std::span<const std::uint32_t> rows) { Going::enter(rows); }
    void leave(std::size_t) {}
    void keep(std::span<const std::uint32_t>) {}
    template <class Leaves>
    void add(std::size_t member, std::size_t output, const Leaves& leaves, std::size_t n) {
        ballot_.add(output, leaves, n);
        if (output + 1 < forest_.n_outputs()) return;
        for (std::size_t j = 0; j < n; ++j) votes_[rows_[j]][member] = ballot_.vote()[j];
    }
    bool looks(std::size_t) const { return false; }
    std::size_t settle(std::size_t, std::size_t) { return 0; }

private:
    const Forest& forest_;
    Matrix<std::int64_t> votes_;
    Ballot<Real> ballot_;
};

// Write down the index of every leaf.
class EveryLeaf : public Going {
public:
    static constexpr bool stops = false;

    EveryLeaf(const Forest& forest, std::span<const std::int64_t> index, Matrix<std::int64_t> leaf, std::size_t most)
        : Going(most), forest_(forest), index_(index), leaf_(leaf) {}

    std::size_t first_stage() const { return forest_.n_members(); }
    void enter(std::span<const std::uint32_t> rows) { Going::enter(rows); }
    void leave(std::size_t) {}
    void keep(std::span<const std::uint32_t>) {}
    void add(std::size_t member, std::size_t output, LeafIds leaves, std::size_t n) {
        const std::size_t tree = member * forest_.n_outputs() + output;
        const auto place = forest_.place_of_id(tree);
        for (std::size_t j = 0; j < n; ++j) leaf_[rows_[j]][tree] = index_[place[leaves.at[j]]];
    }
    void add(std::size_t member, std::size_t output, LeafPlaces leaves, std::size_t n) {
        const std::size_t tree = member * forest_.n_outputs() + output;
        for (std::size_t j = 0; j < n; ++j) leaf_[rows_[j]][tree] = index_[leaves.at[j]];
    }
    bool looks(std::size_t) const { return false; }
    std::size_t settle(std::size_t, std::size_t) { return 0; }

private:
    const Forest& forest_;
    std::span<const std::int64_t> index_;
    Matrix<std::int64_t> leaf_;
};

}  // namespace rfsize
