// What rules that stop at a bound do, tree by tree; for calibrating tables.
#pragma once

#include <cstdint>
#include <span>

#include "arrays.hpp"

namespace rfsize {

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

// Add up the rows that each rule answers otherwise, and the trees that it takes, by class. number, of rows and trees so
// far, is what the rules put bounds on; differs, whether the answer would then differ from that of all trees; group,
// the class that these give. Limits descend, so that a row stops ever sooner. After the last tree, every row stops.
inline void count_stops(const Matrix<const double>& number, const Matrix<const bool>& differs,
                        std::span<const std::int64_t> group, std::span<const double> limits, const Bounds& bounds,
                        const Matrix<std::int64_t>& differing, const Matrix<std::int64_t>& trees) {
    const std::size_t n_trees = bounds.scale.size();
    for (std::size_t row = 0; row < group.size(); ++row) {
        const auto k = static_cast<std::size_t>(group[row]);
        std::size_t going = limits.size();
        for (std::size_t t = 0; t + 1 < n_trees && going > 0; ++t) {
            while (going > 0 && bounds.reached(number[row][t], limits[going - 1], t)) {
                --going;
                trees[k][going] += static_cast<std::int64_t>(t + 1);
                differing[k][going] += differs[row][t];
            }
        }
        for (std::size_t rule = 0; rule < going; ++rule) trees[k][rule] += static_cast<std::int64_t>(n_trees);
    }
}

}  // namespace rfsize
