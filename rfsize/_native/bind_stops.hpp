// What the bindings of rows and of rules share: arrays are checked, and rules fit the rows' forest.
#pragma once

#include "bindings.hpp"
#include "link.hpp"
#include "rows.hpp"
#include "stop_averages.hpp"
#include "stop_votes.hpp"

namespace rfsize {

template <class Real>
void expect_totals(const Rows& rows, const Array<Real, 2>& total) {
    total.expect({rows.n_rows(), rows.forest().n_scores()}, "total");
    expect(rows.forest().is_single() == std::is_same_v<Real, float>, "total is of another precision than the forest");
}

inline Answers answers_of(const Rows& rows, const Array<std::int64_t, 1>& label, const Array<std::int64_t, 1>& n_used) {
    label.expect({rows.n_rows()}, "label");
    n_used.expect({rows.n_rows()}, "n_used");
    return {label.data(), n_used.data()};
}

inline void expect_fit(const Forest& forest, const ScoreStop& stop) {
    expect(stop.n_members() == forest.n_members() && stop.drift.size() == forest.n_scores(),
           "the stops are for another forest");
}

inline void expect_votes(const Forest& forest) {
    expect(forest.n_outputs() > 1 || forest.n_voted() > 0, "the leaves of the forest cast no votes");
}

template <class Real>
TreeAlone<Real> alone_of(const Forest& forest, const Array<const Real, 1>& alone) {
    alone.expect({forest.n_outputs() + 1}, "alone");
    expect(forest.is_single() == std::is_same_v<Real, float>, "alone is of another precision than the forest");
    expect_votes(forest);
    return {alone.data()[0], {alone.data() + 1, alone.data() + alone.size()}};
}

inline std::size_t checked_classes(const Forest& forest, std::size_t n_classes) {
    expect(n_classes >= 2 && n_classes >= (forest.n_outputs() > 1 ? forest.n_outputs() : forest.n_voted()),
           "there are fewer classes than the trees vote for");
    return n_classes;
}

inline void expect_fit(const Forest& forest, const VoteStop& stop, std::size_t n_classes) {
    expect_votes(forest);
    checked_classes(forest, n_classes);
    expect(stop.n_members == forest.n_members(), "the stops are for another number of trees");
    expect((n_classes == 2) == !stop.low.empty() && (!stop.table || stop.table->order.n_classes() == n_classes),
           "the stops are for another number of classes");
}

inline Link link_of(int index) {
    expect(index >= 0 && index <= static_cast<int>(Link::SOFTPLUS), "there is no such link");
    return static_cast<Link>(index);
}

}  // namespace rfsize
