// The urn's recursions, as Python sees them.
#include <nanobind/stl/array.h>

#include "bindings.hpp"
#include "urn.hpp"

namespace rfsize {

namespace {

// Bounds of stops on two classes' votes: after t votes, -1 ≤ lower < upper ≤ t + 1.
void expect_bounds(std::size_t n, std::span<const std::int32_t> lower, std::span<const std::int32_t> upper) {
    expect(n >= 2 && lower.size() == n && upper.size() == n, "the bounds are for another number of trees");
    for (std::size_t t = 0; t < n; ++t)
        expect(-1 <= lower[t] && lower[t] < upper[t] && upper[t] <= static_cast<std::int64_t>(t) + 1,
               "the bounds of a stop leave the tallies that there are");
    expect(lower[n - 1] >= 0 && upper[n - 1] == lower[n - 1] + 1,
           "the bounds of a stop leave rows open after the last vote");
}

}  // namespace

void bind_urn(nb::module_& m) {
    m.def(
        "step_back",
        [](const Array<double, 1>& mass, Int asked) {
            expect(asked >= 0 && mass.size() >= at(asked) + 2, "mass has no layer of so many votes");
            step_back(mass.span(), asked, 0, asked);
        },
        nb::arg("mass"), nb::arg("asked"));
    m.def(
        "threshold_bounds",
        [](const ConstDoubles& wins_0, const ConstDoubles& wins_1, double alpha, const Array<std::int32_t, 1>& lower,
           const Array<std::int32_t, 1>& upper) {
            wins_1.expect({wins_0.size()}, "wins_1");
            expect_bounds(wins_0.size(), lower.span(), upper.span());
            Released released;
            threshold_bounds(wins_0.span(), wins_1.span(), alpha, lower.span(), upper.span());
        },
        nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("alpha"), nb::arg("lower"), nb::arg("upper"));
    m.def(
        "binary_outcome",
        [](const ConstDoubles& wins_0, const ConstDoubles& wins_1, const ConstBounds& lower, const ConstBounds& upper) {
            wins_1.expect({wins_0.size()}, "wins_1");
            expect_bounds(wins_0.size(), lower.span(), upper.span());
            Released released;
            return binary_outcome(wins_0.span(), wins_1.span(), lower.span(), upper.span());
        },
        nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("lower"), nb::arg("upper"));
}

}  // namespace rfsize
