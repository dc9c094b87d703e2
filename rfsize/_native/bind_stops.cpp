// Rows that stop, and the tables by which they do, as Python sees them.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>

#include "bind_stops.hpp"
#include "leads.hpp"
#include "stop_spread.hpp"
#include "stop_votes.hpp"

namespace rfsize {

namespace {

template <class Real>
void settle_by_scores(const ScoreStop& stop, const Rows& rows, const Array<Real, 2>& total,
                      const Array<std::int64_t, 1>& label, const Array<std::int64_t, 1>& n_used) {
    expect_totals(rows, total);
    expect_fit(rows.forest(), stop);
    const Answers answers = answers_of(rows, label, n_used);
    Released released;
    ByScores<Real> rule(rows.forest(), stop, total.matrix(), answers, rows.most());
    rows.run(rule);
}

template <class Real>
void settle_by_votes(const VoteStop& stop, const Rows& rows, const Array<const Real, 1>& alone, std::size_t n_classes,
                     const Array<std::int64_t, 1>& label, const Array<std::int64_t, 1>& n_used) {
    const TreeAlone<Real> of = alone_of(rows.forest(), alone);
    expect_fit(rows.forest(), stop, n_classes);
    const Answers answers = answers_of(rows, label, n_used);
    Released released;
    settle(stop, rows, of, n_classes, answers);
}

template <class Real>
void settle_by_spread(const SpreadStop& stop, const Rows& rows, const Array<Real, 2>& total,
                      const Array<std::int64_t, 1>& n_used) {
    expect_totals(rows, total);
    expect(stop.start.size() == rows.forest().n_scores() && stop.n_members() == rows.forest().n_members(),
           "the stops are for another forest");
    n_used.expect({rows.n_rows()}, "n_used");
    Released released;
    BySpread<Real> rule(rows.forest(), stop, total.matrix(), n_used.data(), rows.most());
    rows.run(rule);
}

template <class Real>
void looks(const SpreadStop& stop, const Array<const Real, 3>& values, const Array<double, 2>& left,
           const Array<double, 3>& mean) {
    const std::size_t n_trees = values.shape(1);
    expect(n_trees == stop.n_members() && values.shape(2) == stop.start.size(), "the values are of another forest");
    left.expect({values.shape(0), (n_trees - 1) / stop.every}, "left");
    mean.expect({values.shape(0), left.shape(1), values.shape(2)}, "mean");
    Released released;
    looks_by_spread(stop, values.span(), n_trees, left.matrix(), mean.span());
}

template <class Real>
void bind_settle(nb::class_<ScoreStop>& by_scores, nb::class_<VoteStop>& by_votes, nb::class_<SpreadStop>& by_spread) {
    by_scores.def("settle", &settle_by_scores<Real>, nb::arg("rows"), nb::arg("total"), nb::arg("label"),
                  nb::arg("n_used"));
    by_votes.def("settle", &settle_by_votes<Real>, nb::arg("rows"), nb::arg("alone"), nb::arg("n_classes"),
                 nb::arg("label"), nb::arg("n_used"));
    by_spread.def("settle", &settle_by_spread<Real>, nb::arg("rows"), nb::arg("total"), nb::arg("n_used"));
    by_spread.def("looks", &looks<Real>, nb::arg("values"), nb::arg("left"), nb::arg("mean"));
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

void make_vote_stop(VoteStop* self, std::size_t n_trees, std::size_t n_classes, std::size_t every,
                    const ConstBounds& low, const ConstBounds& high, const ConstBounds& margin,
                    const ConstBounds& upper, const Array<const std::uint8_t, 1>& bits) {
    expect(n_trees > 0 && every > 0, "there are no trees, or none between two looks");
    const bool is_of_two = low.size() > 0;
    for (const ConstBounds* bounds : {&low, &high, &margin, &upper})
        expect(bounds->size() == n_trees + 1 || (bounds->size() == 0 && (bounds != &high || !is_of_two)),
               "the bounds are for another number of trees");
    std::optional<TallyTable> table;
    if (bits.size() > 0) table.emplace(table_of(n_trees, n_classes, bits));
    new (self) VoteStop{n_trees, every, copied(low), copied(high), copied(margin), copied(upper), std::move(table)};
}

// Bounds of stops on two classes' votes: after t votes, -1 ≤ low < high ≤ t + 1.
void expect_bounds(std::size_t n, std::span<const std::int32_t> low, std::span<const std::int32_t> high) {
    expect(n >= 2 && low.size() == n && high.size() == n, "the bounds are for another number of trees");
    for (std::size_t t = 0; t < n; ++t)
        expect(-1 <= low[t] && low[t] < high[t] && high[t] <= static_cast<std::int64_t>(t) + 1,
               "the bounds of a stop leave the tallies that there are");
    expect(low[n - 1] >= 0 && high[n - 1] == low[n - 1] + 1,
           "the bounds of a stop leave rows open after the last vote");
}

void bind_priors(nb::module_& m) {
    m.def(
        "widen_bounds",
        [](const ConstDoubles& wins_0, const ConstDoubles& wins_1, double alpha, const Array<std::int32_t, 1>& low,
           const Array<std::int32_t, 1>& high) {
            wins_1.expect({wins_0.size()}, "wins_1");
            expect_bounds(wins_0.size(), low.span(), high.span());
            Released released;
            widen_bounds(wins_0.span(), wins_1.span(), alpha, low.span(), high.span());
        },
        nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("alpha"), nb::arg("low"), nb::arg("high"));
    m.def(
        "bounds_outcome",
        [](const ConstDoubles& wins, bool winner, const ConstBounds& low, const ConstBounds& high) {
            expect_bounds(wins.size(), low.span(), high.span());
            Released released;
            return bounds_outcome(wins.span(), winner, low.span(), high.span());
        },
        nb::arg("wins"), nb::arg("winner"), nb::arg("low"), nb::arg("high"));
    m.def(
        "mark_stops",
        [](std::size_t n_trees, std::size_t n_classes, const ConstDoubles& prior, double alpha,
           const Array<std::uint8_t, 1>& bits) {
            const TallyOrder order = order_of(n_trees, n_classes);
            prior.expect({order.size_of_layer(n_trees)}, "prior");
            bits.expect({(order.size() + 7) / 8}, "bits");
            Released released;
            mark_stops(order, prior.span(), alpha, bits.span());
        },
        nb::arg("n_trees"), nb::arg("n_classes"), nb::arg("prior"), nb::arg("alpha"), nb::arg("bits"));
    m.def(
        "tally_outcome",
        [](std::size_t n_trees, std::size_t n_classes, const ConstDoubles& prior,
           const Array<const std::uint8_t, 1>& bits, const Array<double, 2>& outcome) {
            const TallyTable table = table_of(n_trees, n_classes, bits);
            prior.expect({table.order.size_of_layer(n_trees)}, "prior");
            outcome.expect({n_classes, 3}, "outcome");
            Released released;
            tally_outcome(table, prior.span(), outcome.matrix());
        },
        nb::arg("n_trees"), nb::arg("n_classes"), nb::arg("prior"), nb::arg("bits"), nb::arg("outcome"));
    m.def(
        "redraw",
        [](std::size_t n_trees, std::size_t n_classes, std::size_t n_redrawn, const Array<double, 1>& prior) {
            const TallyOrder order = order_of(n_trees, n_classes);
            prior.expect({order.size_of_layer(n_trees)}, "prior");
            expect(n_redrawn <= n_trees, "more votes are redrawn than there are");
            Released released;
            redraw(order, n_redrawn, prior.span());
        },
        nb::arg("n_trees"), nb::arg("n_classes"), nb::arg("n_redrawn"), nb::arg("prior"));
}

void bind_counts(nb::module_& m) {
    m.def(
        "running_leads",
        [](const Array<const double, 3>& scores, double cut, const Array<double, 2>& lead,
           const Array<std::int32_t, 2>& label) {
            lead.expect({scores.shape(0), scores.shape(1)}, "lead");
            label.expect({scores.shape(0), scores.shape(1)}, "label");
            expect(scores.shape(2) > 0, "there are no scores");
            Released released;
            running_leads(scores.span(), scores.shape(2), cut, lead.matrix(), label.matrix());
        },
        nb::arg("scores"), nb::arg("cut"), nb::arg("lead"), nb::arg("label"));
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
            for (const std::int64_t k : group.span())
                expect(static_cast<std::uint64_t>(k) < n_classes, "a row is of a class that is none");
            Released released;
            count_stops({number.matrix(), differs.matrix(), group.span()}, limits.span(),
                        {low, high, scale.span(), share.span(), origin}, differing.matrix(), trees.matrix());
        },
        nb::arg("number"), nb::arg("differs"), nb::arg("group"), nb::arg("limits"), nb::arg("low"), nb::arg("high"),
        nb::arg("scale"), nb::arg("share"), nb::arg("origin"), nb::arg("differing"), nb::arg("trees"));
}

}  // namespace

void bind_stops(nb::module_& m) {
    nb::class_<ScoreStop> by_scores(m, "ScoreStop");
    by_scores.def(
        "__init__",
        [](ScoreStop* self, std::size_t first_look, std::size_t every, const ConstDoubles& low,
           const ConstDoubles& high, const ConstDoubles& needed, const ConstDoubles& drift) {
            expect(every > 0 && needed.size() > 1 && low.size() == needed.size() && high.size() == needed.size(),
                   "the stops are not of one number of trees");
            new (self) ScoreStop{first_look, every, copied(low), copied(high), copied(needed), copied(drift)};
        },
        nb::arg("first_look"), nb::arg("every"), nb::arg("low"), nb::arg("high"), nb::arg("needed"), nb::arg("drift"));
    nb::class_<VoteStop> by_votes(m, "VoteStop");
    by_votes.def("__init__", &make_vote_stop, nb::arg("n_trees"), nb::arg("n_classes"), nb::arg("every"),
                 nb::arg("low"), nb::arg("high"), nb::arg("margin"), nb::arg("upper"), nb::arg("bits"));
    nb::class_<SpreadStop> by_spread(m, "SpreadStop");
    by_spread.def(
        "__init__",
        [](SpreadStop* self, double limit, std::size_t every, const ConstDoubles& pooled, double weight, int link,
           double slope, const ConstDoubles& start, const ConstDoubles& offset, const ConstDoubles& per,
           const ConstDoubles& left, const ConstDoubles& share) {
            expect(every > 0 && pooled.size() == start.size() && offset.size() == start.size() && start.size() > 0,
                   "the stops are not of one number of scores");
            expect(share.size() > 0 && per.size() == share.size() && left.size() == share.size(),
                   "the stops are not of one number of trees");
            new (self) SpreadStop{limit,         every,          copied(pooled), weight,       link_of(link), slope,
                                  copied(start), copied(offset), copied(per),    copied(left), copied(share)};
        },
        nb::arg("limit"), nb::arg("every"), nb::arg("pooled"), nb::arg("weight"), nb::arg("link"), nb::arg("slope"),
        nb::arg("start"), nb::arg("offset"), nb::arg("per"), nb::arg("left"), nb::arg("share"));
    bind_settle<float>(by_scores, by_votes, by_spread);
    bind_settle<double>(by_scores, by_votes, by_spread);
    bind_priors(m);
    bind_counts(m);
}

}  // namespace rfsize
