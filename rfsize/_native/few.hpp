// A few rows in a single call, for those who ask for one at a time.
#pragma once

#include "link.hpp"
#include "predict.hpp"
#include "stop_averages.hpp"

namespace rfsize {

// Labels and predictions of a few rows of plain numbers.
struct FewRows {
    const Forest& forest;
    Predicting of_labels, predicting;
    double threshold;
    bool refuses_infinite, refuses_missing;

    // Whether the framework takes the rows: some refuse infinite numbers, and some missing ones.
    bool takes(const Matrix<const double>& X) const {
        if (!refuses_infinite && !refuses_missing) return true;
        for (std::size_t i = 0; i < X.rows * X.columns; ++i) {
            const auto single = static_cast<float>(X.data[i]);
            if ((refuses_infinite && std::isinf(single)) || (refuses_missing && std::isnan(single))) return false;
        }
        return true;
    }

    // Index of the label, and trees asked.
    template <class Real>
    void labels(const ScoreStop& stop, const Matrix<const double>& X, const std::vector<Real>& start,
                const Answers& answers) const {
        std::vector<std::uint16_t> q(X.rows * forest.n_columns());
        std::vector<Real> total(X.rows * start.size());
        quantise(X, q);
        for (std::size_t row = 0; row < X.rows; ++row) {
            std::copy(start.begin(), start.end(), total.begin() + static_cast<std::ptrdiff_t>(row * start.size()));
            answers.label[row] = -1;
            answers.asked[row] = static_cast<std::int64_t>(forest.n_members());
        }
        ByScores<Real> rule(forest, stop, {total.data(), X.rows, start.size()}, answers, X.rows);
        Predictor(forest, q.data(), X.rows, rule).run();
        for (std::size_t row = 0; row < X.rows; ++row)
            if (answers.label[row] < 0)
                answers.label[row] = label_of(std::span(total).subspan(row * start.size(), start.size()));
    }

    // What is predicted, of rows and classes or of rows and 1.
    template <class Real>
    void predict(const Matrix<const double>& X, const std::vector<Real>& start, const Matrix<double>& out) const {
        std::vector<std::uint16_t> q(X.rows * forest.n_columns());
        std::vector<Real> total(X.rows * start.size());
        quantise(X, q);
        for (std::size_t row = 0; row < X.rows; ++row)
            std::copy(start.begin(), start.end(), total.begin() + static_cast<std::ptrdiff_t>(row * start.size()));
        AllScores<Real> rule(forest, {total.data(), X.rows, start.size()}, X.rows);
        Predictor(forest, q.data(), X.rows, rule).run();
        predict_from(predicting, Matrix<Real>{total.data(), X.rows, start.size()}, out);
    }

private:
    void quantise(const Matrix<const double>& X, std::vector<std::uint16_t>& q) const {
        for (std::size_t row = 0; row < X.rows; ++row)
            forest.quantise_row([&](std::size_t feature) { return X[row][feature]; },
                                q.data() + row * forest.n_columns());
    }

    // The class that the framework predicts from what it makes of sums of scores.
    template <class Real>
    std::int64_t label_of(std::span<Real> score) const {
        of_labels.predict(score);
        if (score.size() == 1) return score[0] > static_cast<Real>(threshold);
        return std::max_element(score.begin(), score.end()) - score.begin();
    }
};

}  // namespace rfsize
