// Rows that stop by the spread of their own scores.
#pragma once

#include "link.hpp"
#include "rows.hpp"
#include "stop_averages.hpp"

namespace rfsize {

// See `SpreadRule` in rfsize/stopping/spread.py. After t members, the mean score is start + sum / share, and the
// members left are expected to change it by left times the spread of the values, each taken per unit. offset is the
// part of the start that counts as said by the first member. Vectors are of members, or of scores.
struct SpreadStop {
    double limit;
    std::size_t every;
    std::vector<double> pooled;
    double weight;
    Link link;
    double slope;
    std::vector<double> start, offset, per, left, share;

    std::size_t n_members() const { return share.size(); }
};

// The leaf values of rows: their sums, and those of their distances from the first and of its squares, which do not
// cancel.
class Spread {
public:
    Spread(const SpreadStop& stop, std::size_t most)
        : stop_(stop),
          values_(stop.start.size(), most),
          first_(stop.start.size(), most),
          apart_(stop.start.size(), most),
          squares_(stop.start.size(), most),
          mean_(stop.start.size()),
          predicted_(stop.start.size()) {}

    void enter(std::size_t n) {
        for (std::size_t k = 0; k < mean_.size(); ++k)
            for (double* sum : {values_[k], apart_[k], squares_[k]}) std::fill_n(sum, n, 0.0);
    }
    void keep(std::span<const std::uint32_t> kept) {
        for (ByColumns<double>* column : {&values_, &first_, &apart_, &squares_}) column->keep(kept);
    }
    void add(std::size_t k, std::size_t j, double value, std::size_t member) {
        values_[k][j] += value;
        value = (member == 0 ? value + stop_.offset[k] : value) * stop_.per[member];
        if (member == 0) first_[k][j] = value;
        const double apart = value - first_[k][j];
        apart_[k][j] += apart;
        squares_[k][j] += apart * apart;
    }

    // What is compared with the limit after so many members; fills mean with mean scores.
    double left_to_change(std::size_t j, std::size_t n_used) {
        const auto n = static_cast<double>(n_used);
        for (std::size_t k = 0; k < mean_.size(); ++k) {
            mean_[k] = stop_.start[k] + values_[k][j] / stop_.share[n_used - 1];
            predicted_[k] = stop_.slope * mean_[k];
        }
        if (stop_.link == Link::SOFTMAX)
            softmax(std::span(predicted_));
        else if (stop_.link != Link::IDENTITY && stop_.link != Link::SQUARE)
            for (double& number : predicted_) number = linked(number, stop_.link);
        double largest = 0.0;
        for (std::size_t k = 0; k < mean_.size(); ++k) {
            const double squares = std::max(squares_[k][j] - apart_[k][j] * apart_[k][j] / n, 0.0);
            const double variance =
                (stop_.weight * stop_.pooled[k] * stop_.pooled[k] + squares) / (stop_.weight + n - 1.0);
            const double change = std::sqrt(variance) * steepness(k);
            if (std::isnan(change)) return change;  // of which nothing is known, so that the row goes on
            largest = std::max(largest, change);
        }
        return largest * stop_.left[n_used - 1];
    }
    // The sum of all members whose mean is that of so many; of members that add up, it is their own sum.
    template <class Real>
    Real whole_sum(std::size_t k, std::size_t n_used, Real sum) const {
        const double all = stop_.share.back();
        if (stop_.share[n_used - 1] == all) return sum;
        return static_cast<Real>(stop_.start[k] + (mean_[k] - stop_.start[k]) * all);
    }
    const std::vector<double>& mean() const { return mean_; }

private:
    const SpreadStop& stop_;
    ByColumns<double> values_, first_, apart_, squares_;
    std::vector<double> mean_, predicted_;

    double steepness(std::size_t k) const {
        switch (stop_.link) {
            case Link::IDENTITY: return stop_.slope;
            case Link::EXP: return stop_.slope * predicted_[k];
            case Link::STEP: return 0.0;
            case Link::SOFTPLUS: return stop_.slope * (1.0 - std::exp(-predicted_[k]));
            case Link::SQUARE: return 2.0 * stop_.slope * stop_.slope * std::abs(mean_[k]);
            default: return stop_.slope * predicted_[k] * (1.0 - predicted_[k]);
        }
    }
};

// Rows stop where the spread of their scores says that what is predicted will hardly change.
template <class Real>
class BySpread : public Sums<Real> {
public:
    static constexpr bool stops = true;

    BySpread(const Forest& forest, const SpreadStop& stop, Matrix<Real> total, std::int64_t* n_used, std::size_t most)
        : Sums<Real>(forest, total, most), stop_(stop), n_used_(n_used), spread_(stop, most) {}

    void enter(std::span<const std::uint32_t> rows) {
        Sums<Real>::enter(rows);
        spread_.enter(rows.size());
    }
    void keep(std::span<const std::uint32_t> kept) {
        Sums<Real>::keep(kept);
        spread_.keep(kept);
    }

    template <class Leaves>
    void add(std::size_t member, std::size_t output, const Leaves& leaves, std::size_t n) {
        const Real* value = forest_.template values<Real>(leaves);
        const std::size_t width = forest_.nodes().width;
        for (std::size_t part = 0; part < width; ++part) {
            const std::size_t k = output + part;
            for (std::size_t j = 0; j < n; ++j) {
                if (settled_[j]) continue;
                const Real added = value[leaves.at[j] * width + part];
                sums_[k][j] += added;
                spread_.add(k, j, static_cast<double>(added), member);
            }
        }
    }

    bool looks(std::size_t n_used) const { return n_used % stop_.every == 0 && n_used != forest_.n_members(); }

    std::size_t settle(std::size_t n_used, std::size_t n) {
        std::size_t settled = 0;
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j] || !(spread_.left_to_change(j, n_used) <= stop_.limit)) continue;
            for (std::size_t k = 0; k < total_.columns; ++k) sums_[k][j] = spread_.whole_sum(k, n_used, sums_[k][j]);
            settled_[j] = 1;
            n_used_[rows_[j]] = static_cast<std::int64_t>(n_used);
            ++settled;
        }
        return settled;
    }

private:
    using Sums<Real>::forest_, Sums<Real>::rows_, Sums<Real>::settled_, Sums<Real>::sums_, Sums<Real>::total_;

    const SpreadStop& stop_;
    std::int64_t* n_used_;
    Spread spread_;
};

// What rows are looked at with, after every trees each: what is compared with the limit, of rows and looks, and mean
// scores, of rows, looks and scores. values are of rows, trees and scores.
inline void looks_by_spread(const SpreadStop& stop, std::span<const double> values, std::size_t n_trees,
                            const Matrix<double>& left, std::span<double> mean) {
    Spread spread(stop, 1);
    const double* value = values.data();
    double* out = mean.data();
    for (std::size_t row = 0; row < left.rows; ++row) {
        spread.enter(1);
        for (std::size_t t = 0, look = 0; t < n_trees; ++t) {
            for (std::size_t k = 0; k < stop.start.size(); ++k) spread.add(k, 0, *value++, t);
            if ((t + 1) % stop.every != 0 || t + 1 == n_trees) continue;
            left[row][look++] = spread.left_to_change(0, t + 1);
            out = std::copy(spread.mean().begin(), spread.mean().end(), out);
        }
    }
}

}  // namespace rfsize
