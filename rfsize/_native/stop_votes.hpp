// Rules that go by votes, or by weights of them. Each is a VoteRule in a file of its own, stop_*.cpp, which binds it to
// Python, and has
//
//     Count                        in what votes are added up
//     follows(n_classes)           whether it decides by who leads, and who is next
//     check(n_members, n_classes)  raise where it is not for as many members, or classes
//     weight(member)               what the member's vote counts
//     looks(asked)                 whether any row may stop after so many members
//     decided(rows, asked, j)      the label of a row after so many members, or -1
#pragma once

#include "rows.hpp"

namespace rfsize {

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

// Votes of rows, or sums of weights: of each class, and, where a rule follows them, the leader and the next.
template <class Count>
struct Tallies {
    ByColumns<Count> votes;
    ByColumns<std::uint16_t> leaders;
};

// Votes, or their weights, which stop by a rule.
template <class Real, class Stop>
class ByVotes : public Going {
public:
    static constexpr bool stops = Stop::stops;

    // Clang 14 needs the word.
    using Count = typename Stop::Count;  // NOLINT(readability-redundant-typename)

    ByVotes(const Forest& forest, const TreeAlone<Real>& alone, const Stop& stop, Matrix<Count> counts, Answers answers,
            std::size_t most)
        : Going(most),
          forest_(forest),
          stop_(stop),
          counts_(counts),
          answers_(answers),
          ballot_(forest, alone, most),
          tallies_{{counts.columns, most}, {follows() ? 2 : std::size_t{0}, most}},
          kept_leaders_(follows() ? 2 * counts.rows : 0) {
        for (std::size_t i = 1; i < kept_leaders_.size(); i += 2) kept_leaders_[i] = 1;
    }

    std::size_t first_stage() const { return stops ? FIRST_STAGE : forest_.n_members(); }

    void enter(std::span<const std::uint32_t> rows) {
        Going::enter(rows);
        tallies_.votes.enter(counts_, rows);
        if (follows()) tallies_.leaders.enter(all_leaders(), rows);
    }
    void leave(std::size_t n) {
        tallies_.votes.leave(counts_, rows_, n);
        if (follows()) tallies_.leaders.leave(all_leaders(), rows_, n);
    }
    void keep(std::span<const std::uint32_t> kept) {
        Going::keep(kept);
        tallies_.votes.keep(kept);
        if (follows()) tallies_.leaders.keep(kept);
    }

    template <class Leaves>
    void add(std::size_t member, std::size_t output, const Leaves& leaves, std::size_t n) {
        ballot_.add(output, leaves, n);
        if (output + 1 == forest_.n_outputs()) count(stop_.weight(member), n);
    }

    bool looks(std::size_t asked) const { return stop_.looks(asked); }

    std::size_t settle(std::size_t asked, std::size_t n) {
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j]) continue;
            const std::int64_t label = stop_.decided(tallies_, asked, j);
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
    Tallies<Count> tallies_;
    std::vector<std::uint16_t> kept_leaders_;

    bool follows() const { return Stop::follows(counts_.columns); }
    Matrix<std::uint16_t> all_leaders() { return {kept_leaders_.data(), counts_.rows, 2}; }

    void count(Count weight, std::size_t n) {
        const std::uint16_t* vote = ballot_.vote();
        if (counts_.columns == 2 && !follows()) {
            Count *zero = tallies_.votes[0], *one = tallies_.votes[1];
            for (std::size_t j = 0; j < n; ++j) {
                zero[j] += !settled_[j] && vote[j] == 0 ? weight : Count{0};
                one[j] += !settled_[j] && vote[j] == 1 ? weight : Count{0};
            }
            return;
        }
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j]) continue;
            tallies_.votes[vote[j]][j] += weight;
            if (follows()) move_up(vote[j], j);
        }
    }

    // Only the class that got the vote can move up, so that it need be compared with the leader and the next alone.
    void move_up(std::uint16_t one, std::size_t j) {
        std::uint16_t &leader = tallies_.leaders[0][j], &rival = tallies_.leaders[1][j];
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
        const Count of_one = tallies_.votes[one][j], of_other = tallies_.votes[other][j];
        return of_one > of_other || (of_one == of_other && one < other);
    }
};

// A rule as it is run, whichever it is.
class VoteStop {
public:
    VoteStop() = default;
    VoteStop(const VoteStop&) = delete;
    VoteStop& operator=(const VoteStop&) = delete;
    virtual ~VoteStop() = default;

    // Ask trees about rows until each is settled; labels are negative before, and stay so where the rule settles none.
    virtual void settle(const Rows& rows, const TreeAlone<float>& alone, std::size_t n_classes,
                        const Answers& answers) const = 0;
    virtual void settle(const Rows& rows, const TreeAlone<double>& alone, std::size_t n_classes,
                        const Answers& answers) const = 0;
};

template <class Stop>
class VoteRule : public VoteStop {
public:
    static constexpr bool stops = true;

    using Count = std::int32_t;

    static constexpr bool follows(std::size_t) { return false; }
    Count weight(std::size_t) const { return 1; }

    void settle(const Rows& rows, const TreeAlone<float>& alone, std::size_t n_classes,
                const Answers& answers) const final {
        run(rows, alone, n_classes, answers);
    }
    void settle(const Rows& rows, const TreeAlone<double>& alone, std::size_t n_classes,
                const Answers& answers) const final {
        run(rows, alone, n_classes, answers);
    }

private:
    friend Stop;
    VoteRule() = default;

    template <class Real>
    void run(const Rows& rows, const TreeAlone<Real>& alone, std::size_t n_classes, const Answers& answers) const {
        const auto& own = static_cast<const Stop&>(*this);
        own.check(rows.forest().n_members(), n_classes);
        std::vector<typename Stop::Count> counts(rows.n_rows() * n_classes);
        ByVotes<Real, Stop> rule(rows.forest(), alone, own, {counts.data(), rows.n_rows(), n_classes}, answers,
                                 rows.most());
        rows.run(rule);
    }
};

// Counts the votes of all members.
struct NeverStops {
    static constexpr bool stops = false;

    using Count = std::int32_t;

    static constexpr bool follows(std::size_t) { return false; }
    static constexpr Count weight(std::size_t) { return 1; }
    static constexpr bool looks(std::size_t) { return false; }
    static constexpr std::int64_t decided(const Tallies<Count>&, std::size_t, std::size_t) { return -1; }
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
