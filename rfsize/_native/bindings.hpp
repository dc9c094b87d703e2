// What the bindings share: the GIL that is released, and checks, so that arrays fit each other and rules the rows'
// forest. Nothing but the bindings knows Python.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "buffers.hpp"
#include "link.hpp"
#include "rows.hpp"
#include "stop_averages.hpp"
#include "stop_votes.hpp"

namespace rfsize {

using nb::literals::operator""_a;
using Released = nb::gil_scoped_release;
using ConstDoubles = Array<const double, 1>;
using ConstBounds = Array<const std::int32_t, 1>;
using ConstIndices = Array<const std::int64_t, 1>;

void bind_forest(nb::module_& m);
void bind_sums(nb::module_& m);
void bind_stops(nb::module_& m);

template <class T>
std::vector<T> copied(const Array<const T, 1>& array) {
    return {array.data(), array.data() + array.size()};
}

inline void expect(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
}

inline void expect_all_below(std::span<const std::int64_t> indices, std::size_t size, const char* message) {
    for (const std::int64_t index : indices) expect(static_cast<std::uint64_t>(index) < size, message);
}

// Where parts of so many numbers begin.
inline void expect_ascending(std::span<const std::int64_t> start, std::size_t size, const char* message) {
    expect_all_below(start, size + 1, message);
    expect(std::is_sorted(start.begin(), start.end()), message);
}

inline void expect_fit(const Forest& forest, std::size_t n_members, std::size_t n_scores) {
    expect(n_members == forest.n_members() && n_scores == forest.n_scores(), "the stops are for another forest");
}

inline std::size_t checked_classes(const Forest& forest, std::size_t n_classes) {
    expect(forest.n_outputs() > 1 || forest.n_voted() > 0, "the leaves of the forest cast no votes");
    expect(n_classes >= 2 && n_classes >= (forest.n_outputs() > 1 ? forest.n_outputs() : forest.n_voted()),
           "there are fewer classes than the trees vote for");
    return n_classes;
}

inline void expect_fit(const Forest& forest, const VoteStop& stop, std::size_t n_classes) {
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
