// Leads in averaged scores tree by tree, and what rules that stop at a lead do; for calibrating tables.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "arrays.hpp"

namespace rfsize {

// Lead of the first class in the mean of the first 1, …, T trees' scores, and which class that is. scores are of rows,
// trees and classes; of one score, the lead is the distance of the mean from the cut.
inline void running_leads(std::span<const double> scores, std::size_t n_scores, double cut, const Matrix<double>& lead,
                          const Matrix<std::int32_t>& label) {
    std::vector<double> total(n_scores);
    const double* score = scores.data();
    for (std::size_t row = 0; row < lead.rows; ++row) {
        std::fill(total.begin(), total.end(), 0.0);
        for (std::size_t t = 0; t < lead.columns; ++t, score += n_scores) {
            const auto trees = static_cast<double>(t + 1);
            if (n_scores == 1) {
                total[0] += score[0];
                const double ahead = total[0] / trees - cut;
                lead[row][t] = std::abs(ahead);
                label[row][t] = ahead > 0.0;
                continue;
            }
            std::int32_t first = 0;
            double most = -std::numeric_limits<double>::infinity(), second = most;
            for (std::size_t k = 0; k < n_scores; ++k) {
                total[k] += score[k];
                if (total[k] > most) {
                    first = static_cast<std::int32_t>(k);
                    second = most;
                    most = total[k];
                } else if (total[k] > second) {
                    second = total[k];
                }
            }
            lead[row][t] = (most - second) / trees;
            label[row][t] = first;
        }
    }
}

// What rows say of many rules after each tree: a number that the rules put bounds on.
struct RowsByTree {
    Matrix<const double> number;          // of rows and trees so far
    Matrix<const bool> differs;           // whether the answer would then differ from that of all trees
    std::span<const std::int64_t> group;  // the class that all trees give
};

// The bounds of a rule after each tree, in the very operations with which it runs. A row stops where its number is at
// most origin + (low − m − origin)·share or at least origin + (high + m − origin)·share, with m = limit·scale.
struct Bounds {
    double low, high;
    std::span<const double> scale, share;
    double origin;

    bool reached(double number, double limit, std::size_t t) const {
        const double m = limit * scale[t];
        return number <= origin + (low - m - origin) * share[t] || number >= origin + (high + m - origin) * share[t];
    }
};

// Add up the rows that each rule answers otherwise, and the trees that it takes, by class. Limits descend, so
// that a row stops ever sooner. After the last tree, every row stops.
inline void count_stops(const RowsByTree& rows, std::span<const double> limits, const Bounds& bounds,
                        const Matrix<std::int64_t>& differing, const Matrix<std::int64_t>& trees) {
    const std::size_t n_trees = bounds.scale.size();
    for (std::size_t row = 0; row < rows.group.size(); ++row) {
        const auto k = static_cast<std::size_t>(rows.group[row]);
        std::size_t going = limits.size();
        for (std::size_t t = 0; t + 1 < n_trees && going > 0; ++t) {
            while (going > 0 && bounds.reached(rows.number[row][t], limits[going - 1], t)) {
                --going;
                trees[k][going] += static_cast<std::int64_t>(t + 1);
                differing[k][going] += rows.differs[row][t];
            }
        }
        for (std::size_t rule = 0; rule < going; ++rule) trees[k][rule] += static_cast<std::int64_t>(n_trees);
    }
}

}  // namespace rfsize
