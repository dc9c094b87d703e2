// Rows down trees with columns of other rows, as Python sees them.
#include "bindings.hpp"
#include "permuted.hpp"

namespace rfsize {

namespace {

using ConstIndices = Array<const std::int64_t, 1>;
using ConstSets = Array<const std::int32_t, 1>;

void expect_all_below(std::span<const std::int64_t> indices, std::size_t size, const char* message) {
    for (const std::int64_t index : indices) expect(static_cast<std::uint64_t>(index) < size, message);
}

Permutation checked_permutation(const Rows& rows, std::size_t tree, const ConstIndices& order, const ConstSets& sets,
                                const ConstIndices& shift) {
    expect(tree < rows.forest().n_trees(), "there is no such tree");
    sets.expect({rows.forest().n_columns()}, "set_of_column");
    const Permutation permutation{order.span(), sets.span(), shift.span()};
    expect_all_below(permutation.order, rows.n_rows(), "the order has a row that is not there");
    expect_all_below(permutation.shift, permutation.order.size() + 1, "a set is shifted beyond the last row");
    for (const std::int32_t set : permutation.set_of_column)
        expect(set >= -1 && set < static_cast<std::int64_t>(permutation.n_sets()), "a column is of a set that is none");
    return permutation;
}

void changes_of_scores(const Rows& rows, std::size_t tree, const ConstIndices& order, const ConstSets& set_of_column,
                       const ConstIndices& shift, const Array<const bool, 1>& is_oob,
                       const Array<const double, 2>& scores, std::size_t first, const Array<double, 2>& as_they_are,
                       const Array<double, 3>& changed) {
    const Permutation permutation = checked_permutation(rows, tree, order, set_of_column, shift);
    const std::size_t n_scores = as_they_are.shape(1);
    is_oob.expect({rows.n_rows()}, "is_oob");
    scores.expect({rows.forest().n_nodes(), scores.shape(1)}, "scores");
    expect(first <= n_scores && scores.shape(1) <= n_scores - first, "the forest has fewer scores than the tree");
    as_they_are.expect({rows.n_rows(), n_scores}, "as_they_are");
    changed.expect({permutation.n_sets(), rows.n_rows(), n_scores}, "changed");
    Released released;
    add_changes(rows, tree, permutation, is_oob.span(),
                {scores.matrix(), first, n_scores, as_they_are.data(), changed.data()});
}

}  // namespace

void bind_permuted(nb::module_& m) {
    m.def("changes_of_scores", &changes_of_scores, nb::arg("rows"), nb::arg("tree"), nb::arg("order"),
          nb::arg("set_of_column"), nb::arg("shift"), nb::arg("is_oob"), nb::arg("scores"), nb::arg("first"),
          nb::arg("as_they_are"), nb::arg("changed"));
}

}  // namespace rfsize
