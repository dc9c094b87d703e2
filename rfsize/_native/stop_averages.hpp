// Rules that go by averaged scores: those that stop when a label is settled, and the sum of all trees.
#pragma once

#include "stop.hpp"

namespace rfsize {

// See `LabelsBySums` in rfsize/stopping/on_forest.py.
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

    // Inlined into the loop over trees, these two come out some 7 % slower.
    [[gnu::noinline]] std::size_t settle_one(std::size_t asked, std::size_t n) {
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

    [[gnu::noinline]] std::size_t settle_several(std::size_t asked, std::size_t n) {
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

}  // namespace rfsize
