// Rows that stop, and the tables by which they do, as Python sees them.
#include <nanobind/stl/array.h>

#include "bindings.hpp"
#include "calibration.hpp"
#include "stop_spread.hpp"

namespace rfsize {

namespace {

void looks(const SpreadStop& stop, const Array<const double, 3>& values, const Array<double, 2>& left,
           const Array<double, 3>& mean) {
    const std::size_t n_trees = values.shape(1);
    expect(n_trees == stop.n_members() && values.shape(2) == stop.start.size(), "the values are of another forest");
    left.expect({values.shape(0), (n_trees - 1) / stop.every}, "left");
    mean.expect({values.shape(0), left.shape(1), values.shape(2)}, "mean");
    Released released;
    looks_by_spread(stop, values.span(), n_trees, left.matrix(), mean.span());
}

// An order of tallies that fits into memory.
TallyOrder order_of(std::size_t n_trees, std::size_t n_classes) {
    expect(n_trees >= 1 && n_trees <= MOST_TREES && n_classes >= 3 && n_classes <= MOST_CLASSES,
           "there are no tallies of so many votes or classes");
    TallyOrder order(n_trees, n_classes);
    expect(order.size() <= MOST_TALLIES, "there are too many tallies");
    return order;
}

TallyTable table_of(std::size_t n_trees, std::size_t n_classes, const Array<const std::uint8_t, 1>& bits) {
    TallyOrder order = order_of(n_trees, n_classes);
    bits.expect({(order.size() + 7) / 8}, "bits");
    return {std::move(order), copied(bits)};
}

VoteStop make_vote_stop(std::size_t n_trees, std::size_t n_classes, std::size_t every, const ConstBounds& low,
                        const ConstBounds& high, const ConstBounds& margin, const ConstBounds& upper,
                        const Array<const std::uint8_t, 1>& bits) {
    expect(n_trees > 0 && every > 0, "there are no trees, or none between two looks");
    const bool is_of_two = low.size() > 0;
    for (const ConstBounds* bounds : {&low, &high, &margin, &upper})
        expect(bounds->size() == n_trees + 1 || (bounds->size() == 0 && (bounds != &high || !is_of_two)),
               "the bounds are for another number of trees");
    std::optional<TallyTable> table;
    if (bits.size() > 0) table.emplace(table_of(n_trees, n_classes, bits));
    return {n_trees, every, copied(low), copied(high), copied(margin), copied(upper), std::move(table)};
}

void bind_tables(nb::module_& m) {
    m.def(
        "solve_two_classes",
        [](const ConstDoubles& wins_0, const ConstDoubles& wins_1, double alpha, const Array<std::int32_t, 1>& low,
           const Array<std::int32_t, 1>& high) {
            const std::size_t n = wins_0.size();
            expect(n > 1 && wins_1.size() == n && low.size() == n && high.size() == n,
                   "the bounds are for another number of trees");
            Released released;
            set_bounds(wins_0.span(), wins_1.span(), alpha, low.span(), high.span());
            return std::array{bounds_outcome(wins_0.span(), false, low.span(), high.span()),
                              bounds_outcome(wins_1.span(), true, low.span(), high.span())};
        },
        "wins_0"_a, "wins_1"_a, "alpha"_a, "low"_a, "high"_a);
    m.def(
        "solve_tallies",
        [](std::size_t n_trees, std::size_t n_classes, const Array<double, 1>& prior, std::size_t n_redrawn,
           double alpha, const Array<std::uint8_t, 1>& bits, const Array<double, 2>& outcome) {
            const TallyOrder order = order_of(n_trees, n_classes);
            prior.expect({order.size_of_layer(n_trees)}, "prior");
            bits.expect({(order.size() + 7) / 8}, "bits");
            outcome.expect({n_classes, 3}, "outcome");
            expect(n_redrawn <= n_trees, "more votes are redrawn than there are");
            Released released;
            redraw(order, n_redrawn, prior.span());
            if (alpha < 1.0) mark_stops(order, prior.span(), alpha, bits.span());
            tally_outcome(order, prior.span(), bits.span(), outcome.matrix());
        },
        "n_trees"_a, "n_classes"_a, "prior"_a, "n_redrawn"_a, "alpha"_a, "bits"_a, "outcome"_a);
    m.def(
        "count_stops",
        [](const Array<const double, 2>& number, const Array<const bool, 2>& differs, const ConstIndices& group,
           const ConstDoubles& limits, double low, double high, const ConstDoubles& scale, const ConstDoubles& share,
           double origin, const Array<std::int64_t, 2>& differing, const Array<std::int64_t, 2>& trees) {
            const std::size_t n_rows = number.shape(0), n_trees = number.shape(1), n_classes = differing.shape(0);
            differs.expect({n_rows, n_trees}, "differs");
            group.expect({n_rows}, "group");
            for (const ConstDoubles* bounds : {&scale, &share})
                expect(bounds->size() == n_trees, "the bounds are for another number of trees");
            differing.expect({n_classes, limits.size()}, "differing");
            trees.expect({n_classes, limits.size()}, "trees");
            expect_all_below(group.span(), n_classes, "a row is of a class that is none");
            Released released;
            count_stops(number.matrix(), differs.matrix(), group.span(), limits.span(),
                        {low, high, scale.span(), share.span(), origin}, differing.matrix(), trees.matrix());
        },
        "number"_a, "differs"_a, "group"_a, "limits"_a, "low"_a, "high"_a, "scale"_a, "share"_a, "origin"_a,
        "differing"_a, "trees"_a);
}

}  // namespace

void bind_stops(nb::module_& m) {
    nb::class_<ScoreStop>(m, "ScoreStop")
        .def(nb::new_([](std::size_t first_look, std::size_t every, const ConstDoubles& low, const ConstDoubles& high,
                         const ConstDoubles& drift) {
                 expect(every > 0 && high.size() > 1 && low.size() == high.size(),
                        "the stops are not of one number of trees");
                 return ScoreStop{first_look, every, copied(low), copied(high), copied(drift)};
             }),
             "first_look"_a, "every"_a, "low"_a, "high"_a, "drift"_a);
    nb::class_<VoteStop>(m, "VoteStop")
        .def(nb::new_(&make_vote_stop), "n_trees"_a, "n_classes"_a, "every"_a, "low"_a, "high"_a, "margin"_a, "upper"_a,
             "bits"_a);
    nb::class_<SpreadStop>(m, "SpreadStop")
        .def(nb::new_([](double limit, std::size_t every, const ConstDoubles& pooled, double weight, int link,
                         double slope, const ConstDoubles& start, const ConstDoubles& offset, const ConstDoubles& per,
                         const ConstDoubles& left, const ConstDoubles& share) {
                 expect(every > 0 && pooled.size() == start.size() && offset.size() == start.size() && start.size() > 0,
                        "the stops are not of one number of scores");
                 expect(share.size() > 0 && per.size() == share.size() && left.size() == share.size(),
                        "the stops are not of one number of trees");
                 return SpreadStop{limit,         every,          copied(pooled), weight,       link_of(link), slope,
                                   copied(start), copied(offset), copied(per),    copied(left), copied(share)};
             }),
             "limit"_a, "every"_a, "pooled"_a, "weight"_a, "link"_a, "slope"_a, "start"_a, "offset"_a, "per"_a,
             "left"_a, "share"_a)
        .def("looks", &looks, "values"_a, "left"_a, "mean"_a);
    bind_tables(m);
}

}  // namespace rfsize
