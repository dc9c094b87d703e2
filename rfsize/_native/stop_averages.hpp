// Rules that go by averaged scores: the sum of all trees, and rows that stop when a label is settled.
#pragma once

#include "stop.hpp"

namespace rfsize {

// See `LabelsBySums` in rfsize/stopping/scores.py.
struct ScoreStop {
    std::size_t first_look, every;
    std::vector<double> low, high, drift;

    std::size_t n_members() const { return high.size() - 1; }
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
        : Sums<Real>(forest, total, most),
          stop_(stop),
          answers_(answers),
          reached_(most),
          highest_(total.columns > 1 ? most : 0),
          second_(highest_.size()) {}

    std::size_t first_stage() const { return std::max(stop_.first_look, FIRST_STAGE); }

    bool looks(std::size_t n_used) const {
        return n_used >= stop_.first_look && n_used != stop_.n_members() &&
               (n_used - stop_.first_look) % stop_.every == 0;
    }

    std::size_t settle(std::size_t n_used, std::size_t n) {
        const std::size_t settled = total_.columns == 1 ? look_at_one(n_used, n) : look_at_several(n_used, n);
        for (std::size_t i = 0; i < settled; ++i)
            this->answer(reached_[i], label(reached_[i], n_used), n_used, answers_);
        return settled;
    }

private:
    using Sums<Real>::settled_, Sums<Real>::sums_, Sums<Real>::total_;

    const ScoreStop& stop_;
    Answers answers_;
    Temporary<std::uint32_t> reached_;
    Temporary<double> highest_, second_;

    // Fill reached_ with the rows that are settled now, and count them. Without a branch: nobody foresees which.
    template <class Reaches>
    std::size_t find(std::size_t n, Reaches&& reaches) {
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            reached_[settled] = static_cast<std::uint32_t>(j);
            settled += static_cast<std::size_t>(reaches(j)) & (settled_[j] ^ std::size_t{1});
        }
        return settled;
    }

    // Inlined into the loop over trees, these two come out slower.
    [[gnu::noinline]] std::size_t look_at_one(std::size_t n_used, std::size_t n) {
        const double low = stop_.low[n_used], high = stop_.high[n_used];
        const Real* sum = sums_[0];
        return find(n, [=](std::size_t j) {
            const auto score = static_cast<double>(sum[j]);
            return (score <= low) | (score >= high);
        });
    }

    [[gnu::noinline]] std::size_t look_at_several(std::size_t n_used, std::size_t n) {
        double *highest = highest_.data(), *second = second_.data();
        std::fill_n(highest, n, -std::numeric_limits<double>::infinity());
        std::fill_n(second, n, -std::numeric_limits<double>::infinity());
        for (std::size_t k = 0; k < total_.columns; ++k) {
            const Real* sum = sums_[k];
            const double drift = drift_of(k, n_used);
            for (std::size_t j = 0; j < n; ++j) {
                const double score = static_cast<double>(sum[j]) - drift;
                second[j] = std::max(second[j], std::min(highest[j], score));
                highest[j] = std::max(highest[j], score);
            }
        }
        return find(n, [=, needed = stop_.high[n_used]](std::size_t j) { return highest[j] - second[j] >= needed; });
    }

    double drift_of(std::size_t k, std::size_t n_used) const {
        return (1.0 - static_cast<double>(n_used) / static_cast<double>(stop_.n_members())) * stop_.drift[k];
    }

    // The label of a row that has reached it; of equal scores, that of the first class.
    std::int64_t label(std::size_t j, std::size_t n_used) {
        if (total_.columns == 1) return static_cast<double>(sums_[0][j]) > stop_.low[n_used];
        std::size_t k = 0;
        while (static_cast<double>(sums_[k][j]) - drift_of(k, n_used) != highest_[j]) ++k;
        return static_cast<std::int64_t>(k);
    }
};

}  // namespace rfsize
