// Predictions of rows from sums of scores. A few rows, as services predict them, allocate nothing.
#pragma once

#include "link.hpp"
#include "rows.hpp"
#include "stop_averages.hpp"
#include "stop_votes.hpp"

namespace rfsize {

// How labels follow from sums of scores: what the framework predicts, and the number above which it is class 1 of two.
struct LabelOfSums {
    Predicting predicting;
    double threshold;

    template <class Real>
    std::int64_t operator()(std::span<Real> sums) const {
        predicting.predict(sums);
        if (sums.size() == 1) return sums[0] > static_cast<Real>(threshold);
        return std::max_element(sums.begin(), sums.end()) - sums.begin();
    }
};

// Whether rows hold nothing that the framework refuses, which some do with infinite numbers, and some with missing
// ones; nor, in rows of a frame, a whole number that double precision may have rounded.
template <class T>
bool takes(const Reading& reading, const Strided<T>& X, bool of_frame) {
    constexpr double whole = 9007199254740992.0;  // up to this, double precision holds all whole numbers
    if (!reading.refuses_infinite && !of_frame) return true;
    for (std::size_t row = 0; row < X.rows; ++row)
        for (std::size_t column = 0; column < X.columns; ++column) {
            const auto value = static_cast<double>(X.at(row, column));
            const auto single = static_cast<float>(value);
            const bool is_refused = std::isinf(single) || (reading.refuses_missing && std::isnan(single));
            if (reading.refuses_infinite && is_refused) return false;
            if (of_frame && std::abs(value) >= whole && !std::isinf(value)) return false;
        }
    return true;
}

// Add the values of leaves that one row reaches, in so many trees from the first on.
template <class Real>
void add_leaves(const Forest& forest, const std::uint32_t* place, std::size_t first, std::size_t n, Real* sums) {
    const Real* value = forest.values<Real>(LeafPlaces{place});
    const std::size_t width = forest.nodes().width;
    if (forest.n_scores() == 1) {
        Real sum = sums[0];  // in a register, not in memory, for which each addition would wait
        for (std::size_t j = 0; j < n; ++j) sum += value[place[j]];
        sums[0] = sum;
        return;
    }
    for (std::size_t j = 0; j < n; ++j)
        for (std::size_t part = 0; part < width; ++part)
            sums[(first + j) % forest.n_outputs() + part] += value[place[j] * width + part];
}

// Add the values of the leaves that rows reach in all trees.
template <class Real>
void add_all(const Rows& rows, const Matrix<Real>& total) {
    const Forest& forest = rows.forest();
    if (rows.n_rows() > FEW) {
        rows.run<Sums<Real>>(total);
        return;
    }
    RowAlone alone(forest, std::min(AT_ONCE, forest.n_trees()));
    for (std::size_t row = 0; row < rows.n_rows(); ++row) {
        alone.take(rows.q() + row * forest.n_columns());
        for (std::size_t first = 0; first < forest.n_trees(); first += AT_ONCE) {
            const std::size_t n = std::min(AT_ONCE, forest.n_trees() - first);
            add_leaves(forest, alone.reach(first, n), first, n, total[row].data());
        }
    }
}

// The labels of rows by averaged scores, and how many trees predict those that stop; total holds the sums before any
// tree.
template <class Real>
void label_by_scores(const Rows& rows, const ScoreStop& stop, const LabelOfSums& label_of, const Matrix<Real>& total,
                     const Answers& answers) {
    if (stop.first_look < stop.n_members())
        rows.run<ByScores<Real>>(stop, total, answers);
    else  // no row stops
        add_all(rows, total);
    for (std::size_t row = 0; row < rows.n_rows(); ++row)
        if (answers.label[row] < 0) answers.label[row] = label_of(total[row]);
}

}  // namespace rfsize
