// What makes predictions of mean scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "arrays.hpp"

namespace rfsize {

// In the order of `LINKS` in rfsize/models/link.py.
enum class Link { LOGISTIC, SOFTMAX, ONE_VS_ALL, IDENTITY, EXP, SQUARE, STEP, SOFTPLUS };

template <class Real>
Real linked(Real score, Link link) {
    if (link == Link::EXP) return std::exp(score);
    if (link == Link::SQUARE) return score * std::abs(score);
    if (link == Link::STEP) return score > Real{0} ? Real{1} : Real{0};
    if (link == Link::SOFTPLUS) return std::log1p(std::exp(score));
    return Real{1} / (Real{1} + std::exp(-score));
}

template <class Real>
void softmax(std::span<Real> score) {
    const Real largest = *std::max_element(score.begin(), score.end());
    double whole = 0.0;
    for (Real& number : score) {
        number = std::exp(number - largest);
        whole += static_cast<double>(number);
    }
    const auto rounded = static_cast<Real>(whole);
    for (Real& number : score) number /= rounded;
}

// How sums of scores become predictions, in the precision of the sums.
struct Predicting {
    double divisor, slope;
    Link link;

    // score holds the sums, and then what is predicted of each class, or of the second of two.
    template <class Real>
    void predict(std::span<Real> score) const {
        for (Real& number : score) number = static_cast<Real>(slope) * (number / static_cast<Real>(divisor));
        if (link == Link::SOFTMAX)
            softmax(score);
        else if (link != Link::IDENTITY)
            for (Real& number : score) number = linked(number, link);
    }
};

// What is predicted of sums of scores, which are overwritten: of rows and classes, or of rows and 1.
template <class Real, class Out>
void predict_from(const Predicting& predicting, const Matrix<Real>& total, const Matrix<Out>& out) {
    for (std::size_t row = 0; row < total.rows; ++row) {
        const std::span<Real> score = total[row];
        predicting.predict(score);
        if (out.columns > score.size()) {
            out[row][0] = static_cast<Out>(Real{1} - score[0]);
            out[row][1] = static_cast<Out>(score[0]);
        } else {
            for (std::size_t k = 0; k < score.size(); ++k) out[row][k] = static_cast<Out>(score[k]);
        }
    }
}

}  // namespace rfsize
