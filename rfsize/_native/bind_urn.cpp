// The urn's recursions, as Python sees them.
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>

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

Int trees_of(const Array<const double, 3>& wins) {
    expect(wins.shape(0) == 3 && wins.shape(1) == wins.shape(2) && wins.shape(1) >= 2, "wins are not of three classes");
    return static_cast<Int>(wins.shape(1)) - 1;
}

template <class T>
void expect_states(Int n_trees, const Array<T, 1>& decision) {
    decision.expect({ternary_index(at(n_trees + 1), 0, 0)}, "decision");
    for (const std::int8_t each : decision.span())
        expect(each >= -1 && each < 3, "a state is decided for a class that is none");
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
        "step_back_plane",
        [](const Array<double, 2>& mass, Int asked) {
            expect(asked >= 0 && mass.shape(0) == mass.shape(1) && mass.shape(0) >= at(asked) + 2,
                   "mass has no layer of so many votes");
            step_back_plane(mass.span(), static_cast<Int>(mass.shape(0)), asked);
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
        [](const ConstDoubles& wins_0, const ConstDoubles& wins_1, const ConstBounds& lower, const ConstBounds& upper,
           double alpha) {
            wins_1.expect({wins_0.size()}, "wins_1");
            expect_bounds(wins_0.size(), lower.span(), upper.span());
            Released released;
            const auto [wrong_0, wrong_1, trees, unsettled] =
                binary_outcome(wins_0.span(), wins_1.span(), lower.span(), upper.span(), alpha);
            return std::array{wrong_0, wrong_1, trees, unsettled};
        },
        nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("lower"), nb::arg("upper"), nb::arg("alpha"));
    m.def(
        "cheapest_bounds",
        [](const ConstDoubles& prior, const ConstDoubles& wins_0, const ConstDoubles& wins_1,
           const ConstDoubles& penalty_0, const ConstDoubles& penalty_1, const Array<std::int32_t, 2>& lower,
           const Array<std::int32_t, 2>& upper) {
            const std::size_t n = prior.size(), penalties = penalty_0.size();
            wins_0.expect({n}, "wins_0");
            wins_1.expect({n}, "wins_1");
            penalty_1.expect({penalties}, "penalty_1");
            lower.expect({penalties, n}, "lower");
            upper.expect({penalties, n}, "upper");
            for (std::size_t which = 0; which < penalties; ++which)
                expect_bounds(n, lower.matrix()[which], upper.matrix()[which]);
            std::vector<double> found(penalties * 3);
            {
                Released released;
                CheapestBounds(prior.span(), wins_0.span(), wins_1.span(), penalty_0.span(), penalty_1.span(),
                               lower.matrix(), upper.matrix())
                    .run({found.data(), penalties, 3});
            }
            return numpy_of(std::move(found), {penalties, 3});
        },
        nb::arg("prior"), nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("penalty_0"), nb::arg("penalty_1"),
        nb::arg("lower"), nb::arg("upper"));
    m.def(
        "extensions",
        [](const ConstDoubles& prior, const ConstDoubles& wins_0, const ConstDoubles& wins_1, const ConstBounds& lower,
           const ConstBounds& upper) {
            wins_0.expect({prior.size()}, "wins_0");
            wins_1.expect({prior.size()}, "wins_1");
            expect_bounds(prior.size(), lower.span(), upper.span());
            std::vector<double> outcome(3), changes(2 * prior.size() * 3);
            {
                Released released;
                extensions(prior.span(), wins_0.span(), wins_1.span(), lower.span(), upper.span(), outcome, changes);
            }
            return std::pair(numpy_of(std::move(outcome), {3}), numpy_of(std::move(changes), {2, prior.size(), 3}));
        },
        nb::arg("prior"), nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("lower"), nb::arg("upper"));
    m.def(
        "answers_by_tally",
        [](const ConstBounds& lower, const ConstBounds& upper) {
            expect_bounds(lower.size(), lower.span(), upper.span());
            std::vector<double> answers(2 * lower.size());
            {
                Released released;
                answers_by_tally(lower.span(), upper.span(), {answers.data(), 2, lower.size()});
            }
            return numpy_of(std::move(answers), {2, lower.size()});
        },
        nb::arg("lower"), nb::arg("upper"));
    m.def(
        "lossless_decisions",
        [](Int n_trees, const Array<std::int8_t, 1>& decision) {
            expect(n_trees > 0, "n_trees must be at least 1");
            decision.expect({ternary_index(at(n_trees + 1), 0, 0)}, "decision");
            Released released;
            lossless_decisions(n_trees, decision.span());
        },
        nb::arg("n_trees"), nb::arg("decision"));
    m.def(
        "threshold_decisions",
        [](const Array<const double, 3>& wins, double alpha, const Array<std::int8_t, 1>& decision) {
            const Int n_trees = trees_of(wins);
            expect_states(n_trees, decision);
            Released released;
            threshold_decisions(n_trees, wins.data(), alpha, decision.span());
        },
        nb::arg("wins"), nb::arg("alpha"), nb::arg("decision"));
    m.def(
        "cheapest_decisions",
        [](const Array<const double, 3>& wins, double penalty, const Array<std::int8_t, 1>& decision) {
            const Int n_trees = trees_of(wins);
            expect_states(n_trees, decision);
            Released released;
            return cheapest_decisions(n_trees, wins.data(), penalty, decision.span());
        },
        nb::arg("wins"), nb::arg("penalty"), nb::arg("decision"));
    m.def(
        "ternary_outcome",
        [](const Array<const double, 3>& wins, const Array<const std::int8_t, 1>& decision, double alpha) {
            const Int n_trees = trees_of(wins);
            expect_states(n_trees, decision);
            Released released;
            return ternary_outcome(n_trees, wins.data(), decision.span(), alpha);
        },
        nb::arg("wins"), nb::arg("decision"), nb::arg("alpha"));
}

}  // namespace rfsize
