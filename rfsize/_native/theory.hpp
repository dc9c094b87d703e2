// How often a rival overtakes the leader among T votes.
//
// Of T votes on a row, a share a of all trees votes for the leader, a share b for a rival, and the rest for neither.
// The difference of the two counts is the sum of T independent steps of -1, 0 and 1; by a change of contour its
// distribution function is an integral of a real function, and with u = tan(θ/2) = exp(v) and κ = (√a − √b)/(√a + √b)
//
//     P(rival ahead) + ½ P(level) = (2π)⁻¹ ∫ (1 − a − b − 2√(ab) · tanh v)ᵀ / cosh(v − log κ) dv,
//                      ½ P(level) = (2π)⁻¹ ∫ (1 − a − b − 2√(ab) · tanh v)ᵀ / cosh(v) dv.
//
// The integrands are analytic in a strip around the real axis, where the trapezoidal rule converges geometrically: a
// step of 1/4 gives the probabilities to 1e-8, whatever T is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>

namespace rfsize {

namespace overtaking {
inline constexpr double STEP = 0.25;
// Beyond so much below log κ, and so much above 0 and log √T, the power is constant and the rest a geometric series.
inline constexpr double BELOW = 9.0, ABOVE = 9.0, ABOVE_ROOT = 6.0;
inline constexpr double NEGLIGIBLE = -27.0;  // a logarithm; below it a probability is taken for zero
}  // namespace overtaking

// P(the rival gets more votes than the leader), or as many where it wins ties; 0 < b ≤ a, a + b ≤ 1.
inline double overtakes(std::int64_t n_trees, double a, double b, bool wins_ties) {
    using namespace overtaking;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double trees = static_cast<double>(n_trees), root_a = std::sqrt(a), root_b = std::sqrt(b),
                 gap = root_a - root_b;
    // Chernoff's bound on the probability; it is also the largest value of the power in the integrals.
    if (trees * std::log1p(-gap * gap) < NEGLIGIBLE) return 0.0;
    const double neither = std::max(1.0 - a - b, 0.0), cross = 2.0 * root_a * root_b;
    const bool level = gap <= 0.0;
    const double log_kappa = level ? 0.0 : std::log(gap / (root_a + root_b));
    const double end = std::abs(neither - cross);
    const bool ends_small = end == 0.0 || trees * std::log(end) < NEGLIGIBLE;
    const double last = std::max(ABOVE, 0.5 * std::log(trees * std::max(cross, 1e-300)) + ABOVE_ROOT);
    const auto nodes = static_cast<std::int64_t>((last - log_kappa + BELOW) / STEP) + 1;
    const double growth = std::exp(STEP), kappa = std::exp(log_kappa);
    double exp_v = std::exp(log_kappa - BELOW), total = 0.0, total_level = 0.0;
    for (std::int64_t node = 0; node < nodes; ++node) {
        const double square = exp_v * exp_v;
        // 1 + what follows is the base of the power; written so as not to cancel where it is close to 1.
        const double less = -gap * gap - 2.0 * cross * square / (1.0 + square), base = 1.0 + less;
        const double size = base > 0.5 ? std::log1p(less) : base != 0.0 ? std::log(std::abs(base)) : -infinity;
        const double exponent = trees * size;
        if (exponent < NEGLIGIBLE) {
            if (ends_small) break;
        } else {
            double power = std::exp(exponent);
            if (base < 0.0 && n_trees % 2 == 1) power = -power;
            if (node == 0 || node == nodes - 1) power /= 1.0 - 1.0 / growth;
            total += power / (exp_v / kappa + kappa / exp_v);
            total_level += power / (exp_v + 1.0 / exp_v);
        }
        exp_v *= growth;
    }
    const double half_tie = total_level * STEP / std::numbers::pi;
    const double ahead_or_half = level ? 0.5 : total * STEP / std::numbers::pi;
    return std::max(ahead_or_half + (wins_ties ? half_tie : -half_tie), 0.0);
}

// 1 − ∏ (1 − P(rival overtakes)) of each row, whose rivals begin at first.
inline void disagreement(std::int64_t n_trees, std::span<const double> leader, std::span<const std::int64_t> first,
                         std::span<const double> rival, std::span<const bool> wins_ties, std::span<double> out) {
    for (std::size_t row = 0; row < leader.size(); ++row) {
        double log_agreement = 0.0;
        for (auto pair = static_cast<std::size_t>(first[row]); pair < static_cast<std::size_t>(first[row + 1]);
             ++pair) {
            const double lost = overtakes(n_trees, leader[row], rival[pair], wins_ties[pair]);
            log_agreement += lost < 1.0 ? std::log1p(-lost) : -std::numeric_limits<double>::infinity();
            if (log_agreement < overtaking::NEGLIGIBLE) break;
        }
        out[row] = -std::expm1(log_agreement);
    }
}

}  // namespace rfsize
