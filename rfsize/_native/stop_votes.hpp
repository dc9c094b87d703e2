// Votes of members: their counts, and rows that stop by them.
#pragma once

#include <optional>

#include "rows.hpp"
#include "urn.hpp"

namespace rfsize {

// What a tree alone scores, where members are a tree of each class: factor times its value, and more of each class.
template <class Real>
struct TreeAlone {
    Real factor;
    std::vector<Real> more;
};

// When rows stop by their votes; see `VoteRule` in rfsize/stopping/votes.py. Of two classes, low
// and high bound the votes for class 1. Of more, a row stops where the votes left cannot change the leader, and also
// where the leader is margin votes ahead, or has upper votes of those for the two leading classes, or where the tally
// is in the table. What is empty stops no row.
struct VoteStop {
    std::size_t n_members, every;
    std::vector<std::int32_t> low, high, margin, upper;
    std::optional<TallyTable> table;

    bool looks(std::size_t n_votes) const { return n_votes % every == 0 || n_votes == n_members; }
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
    Temporary<std::uint16_t> vote_;
    Temporary<Real> best_;
};

// Counts of votes. Rows stop by a VoteStop; without one, all members vote.
template <class Real, bool Stops>
class ByVotes : public Going {
public:
    static constexpr bool stops = Stops;

    using Count = std::int32_t;

    ByVotes(const Forest& forest, const TreeAlone<Real>& alone, const VoteStop* stop, Matrix<Count> counts,
            Answers answers, std::size_t most)
        : Going(most),
          forest_(forest),
          stop_(stop),
          counts_(counts),
          answers_(answers),
          ballot_(forest, alone, most),
          votes_(counts.columns, most),
          leaders_(follows() ? 2 : 0, most),
          kept_leaders_(follows() ? 2 * counts.rows : 0) {
        for (std::size_t i = 0; i < kept_leaders_.size(); ++i) kept_leaders_[i] = i % 2;
    }

    std::size_t first_stage() const { return Stops ? FIRST_STAGE : Going::first_stage(); }

    void enter(std::span<const std::uint32_t> rows) {
        Going::enter(rows);
        votes_.enter(counts_, rows);
        if (follows()) leaders_.enter(all_leaders(), rows);
    }
    void leave(std::size_t n) {
        votes_.leave(counts_, rows_, n);
        if (follows()) leaders_.leave(all_leaders(), rows_, n);
    }
    void keep(std::span<const std::uint32_t> kept) {
        Going::keep(kept);
        votes_.keep(kept);
        if (follows()) leaders_.keep(kept);
    }

    template <class Leaves>
    void add(std::size_t, std::size_t output, const Leaves& leaves, std::size_t n) {
        ballot_.add(output, leaves, n);
        if (output + 1 == forest_.n_outputs()) count(n);
    }

    bool looks(std::size_t n_votes) const { return Stops && stop_->looks(n_votes); }

    std::size_t settle(std::size_t n_votes, std::size_t n) {
        if constexpr (!Stops)
            return 0;
        else
            return follows() ? settle_several(n_votes, n) : settle_two(n_votes, n);
    }

private:
    const Forest& forest_;
    const VoteStop* stop_;
    Matrix<Count> counts_;
    Answers answers_;
    Ballot<Real> ballot_;
    ByColumns<Count> votes_;
    ByColumns<std::uint16_t> leaders_;  // of more than two classes: the leader and the next
    Temporary<std::uint16_t> kept_leaders_;

    bool follows() const { return Stops && counts_.columns > 2; }
    Matrix<std::uint16_t> all_leaders() { return {kept_leaders_.data(), counts_.rows, 2}; }

    // Inlined into the loop over trees, these two come out slower.
    [[gnu::noinline]] std::size_t settle_two(std::size_t n_votes, std::size_t n) {
        const Count low = stop_->low[n_votes], high = stop_->high[n_votes];
        const Count* ones = votes_[1];
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            if ((low < ones[j] && ones[j] < high) || settled_[j]) continue;
            answer(j, ones[j] > low, n_votes, answers_);
            ++settled;
        }
        return settled;
    }

    [[gnu::noinline]] std::size_t settle_several(std::size_t n_votes, std::size_t n) {
        const auto left = static_cast<Count>(stop_->n_members - n_votes);
        const Count margin = stop_->margin.empty() ? left + 1 : stop_->margin[n_votes];
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j]) continue;
            const std::uint16_t leader = leaders_[0][j], next = leaders_[1][j];
            const Count most = votes_[leader][j], second = votes_[next][j], ahead = most - second;
            if (ahead + (leader < next) <= left && ahead < margin && !is_in_table(n_votes, j, most, most + second))
                continue;
            answer(j, leader, n_votes, answers_);
            ++settled;
        }
        return settled;
    }

    bool is_in_table(std::size_t n_votes, std::size_t j, Count most, Count both) {
        if (!stop_->upper.empty()) return most >= stop_->upper[static_cast<std::size_t>(both)];
        return stop_->table && stop_->table->stops(n_votes, [&](std::size_t k) { return votes_[k][j]; });
    }

    void count(std::size_t n) {
        if (counts_.columns > 2) {
            count_several(n);
            return;
        }
        const std::uint16_t* vote = ballot_.vote();
        const std::uint8_t* settled = settled_.data();
        Count *zero = votes_[0], *one = votes_[1];
        for (std::size_t j = 0; j < n; ++j) {
            const Count counts = settled[j] == 0 ? 1 : 0, of_one = vote[j] == 1 ? counts : 0;
            zero[j] += counts - of_one;
            one[j] += of_one;
        }
    }

    [[gnu::noinline]] void count_several(std::size_t n) {
        const std::uint16_t* vote = ballot_.vote();
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j]) continue;
            ++votes_[vote[j]][j];
            if (follows()) move_up(vote[j], j);
        }
    }

    // Only the class that got the vote can move up, so that it need be compared with the leader and the next alone.
    void move_up(std::uint16_t voted, std::size_t j) {
        std::uint16_t &leader = leaders_[0][j], &next = leaders_[1][j];
        if (voted == leader) return;
        if (is_before(voted, leader, j)) {
            next = leader;
            leader = voted;
        } else if (voted != next && is_before(voted, next, j)) {
            next = voted;
        }
    }
    // Ties go to the lowest class.
    bool is_before(std::uint16_t k, std::uint16_t other, std::size_t j) {
        const Count of_k = votes_[k][j], of_other = votes_[other][j];
        return of_k > of_other || (of_k == of_other && k < other);
    }
};

// Send rows down the trees until each is settled by its votes.
template <class Real>
void label_by_votes(const VoteStop& stop, const Rows& rows, const TreeAlone<Real>& alone, std::size_t n_classes,
                    const Answers& answers) {
    const Temporary<std::int32_t> counts(rows.n_rows() * n_classes);
    std::fill_n(counts.data(), counts.size(), 0);
    rows.run<ByVotes<Real, true>>(alone, &stop, Matrix<std::int32_t>{counts.data(), rows.n_rows(), n_classes}, answers);
}

}  // namespace rfsize
