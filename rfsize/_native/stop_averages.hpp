// Rules that go by averaged scores: the sum of all trees, and rows that stop when a label is settled.
#pragma once

#include "stop.hpp"

namespace rfsize {

// See `LabelsBySums` in rfsize/stopping/on_forest.py.
struct ScoreStop {
    std::size_t first_look, every;
    std::vector<double> low, high, needed, drift;

    std::size_t n_members() const { return needed.size() - 1; }
};

// Sums of the scores of all trees.
template <class Real>
class Sums : public Going {
public:
    Sums(const Forest& forest, Matrix<Real> total, std::size_t most)
        : Going(most), forest_(forest), total_(total), sums_(total.columns, most) {}

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

protected:
    const Forest& forest_;
    Matrix<Real> total_;
    ByColumns<Real> sums_;
};

// Sums of scores, which stop by a table or where the trees left cannot change the label.
template <class Real>
class ByScores : public Sums<Real> {
public:
    static constexpr bool stops = true;

    ByScores(const Forest& forest, const ScoreStop& stop, Matrix<Real> total, Answers answers, std::size_t most)
        : Sums<Real>(forest, total, most), stop_(stop), answers_(answers) {}

    std::size_t first_stage() const { return std::max(stop_.first_look, FIRST_STAGE); }

    bool looks(std::size_t n_used) const {
        return n_used >= stop_.first_look && n_used != stop_.n_members() &&
               (n_used - stop_.first_look) % stop_.every == 0;
    }

    std::size_t settle(std::size_t n_used, std::size_t n) {
        return total_.columns == 1 ? settle_one(n_used, n) : settle_several(n_used, n);
    }

private:
    using Sums<Real>::settled_, Sums<Real>::sums_, Sums<Real>::total_;

    const ScoreStop& stop_;
    Answers answers_;

    // Inlined into the loop over trees, these two come out some 7 % slower.
    [[gnu::noinline]] std::size_t settle_one(std::size_t n_used, std::size_t n) {
        const double low = stop_.low[n_used], high = stop_.high[n_used];
        const Real* sum = sums_[0];
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            const auto score = static_cast<double>(sum[j]);
            if ((score <= low || score >= high) && !settled_[j]) {
                this->answer(j, score > low, n_used, answers_);
                ++settled;
            }
        }
        return settled;
    }

    [[gnu::noinline]] std::size_t settle_several(std::size_t n_used, std::size_t n) {
        const double left = 1.0 - static_cast<double>(n_used) / static_cast<double>(stop_.n_members()),
                     lead = stop_.needed[n_used];
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
                this->answer(j, leader, n_used, answers_);
                ++settled;
            }
        }
        return settled;
    }
};

}  // namespace rfsize
