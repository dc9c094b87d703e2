// Rules that go by votes, or by weights of them.
#pragma once

#include <variant>

#include "stop.hpp"

namespace rfsize {

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

}  // namespace rfsize
