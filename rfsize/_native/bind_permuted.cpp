// Rows down trees with columns of other rows, as Python sees them.
#include "bindings.hpp"
#include "permuted.hpp"

namespace rfsize {

namespace {

using ConstIndices = Array<const std::int64_t, 1>;
using ConstSets = Array<const std::int32_t, 1>;

void expect_all_below(std::span<const std::int64_t> indices, std::size_t size, const char* message) {
    for (const std::int64_t each : indices) expect(static_cast<std::uint64_t>(each) < size, message);
}

Permutation checked_permutation(const Rows& rows, std::size_t tree, const ConstIndices& order, const ConstSets& sets,
                                const ConstIndices& shift) {
    expect(tree < rows.forest().n_trees(), "there is no such tree");
    sets.expect({rows.forest().n_columns()}, "set_of_column");
    const Permutation found{order.span(), sets.span(), shift.span()};
    expect_all_below(found.order, rows.n_rows(), "the order has a row that is not there");
    expect_all_below(found.shift, found.order.size() + 1, "a set is shifted beyond the last row");
    for (const std::int32_t set : found.set_of_column)
        expect(set >= -1 && set < static_cast<std::int64_t>(found.n_sets()), "a column is of a set that is none");
    return found;
}

LostByTree checked_losses(const Rows& rows, std::size_t n_sets, const Array<double, 2>& of_rows,
                          const Array<double, 1>& total, const Array<double, 1>& squares) {
    of_rows.expect({rows.n_rows(), n_sets}, "of_rows");
    total.expect({n_sets}, "total");
    squares.expect({n_sets}, "squares");
    return {of_rows.matrix(), total.span(), squares.span()};
}

double losses_of_classes(const Rows& rows, std::size_t tree, const ConstIndices& order, const ConstSets& set_of_column,
                         const ConstIndices& shift, const Array<const double, 2>& loss, const ConstIndices& truth,
                         const ConstDoubles& weight, const Array<double, 2>& of_rows, const Array<double, 1>& total,
                         const Array<double, 1>& squares) {
    const Permutation permutation = checked_permutation(rows, tree, order, set_of_column, shift);
    loss.expect({rows.forest().n_nodes(), loss.shape(1)}, "loss");
    truth.expect({rows.n_rows()}, "truth");
    weight.expect({rows.n_rows()}, "weight");
    expect_all_below(truth.span(), loss.shape(1), "a row is of a class that is none");
    const LostByTree lost = checked_losses(rows, permutation.n_sets(), of_rows, total, squares);
    Released released;
    return add_losses(rows, tree, permutation, LossOfClasses{loss.matrix(), truth.span()}, weight.span(), lost);
}

double losses_of_numbers(const Rows& rows, std::size_t tree, const ConstIndices& order, const ConstSets& set_of_column,
                         const ConstIndices& shift, const ConstDoubles& predicted, const ConstDoubles& truth,
                         bool is_squared, const ConstDoubles& weight, const Array<double, 2>& of_rows,
                         const Array<double, 1>& total, const Array<double, 1>& squares) {
    const Permutation permutation = checked_permutation(rows, tree, order, set_of_column, shift);
    predicted.expect({rows.forest().n_nodes()}, "predicted");
    truth.expect({rows.n_rows()}, "truth");
    weight.expect({rows.n_rows()}, "weight");
    const LostByTree lost = checked_losses(rows, permutation.n_sets(), of_rows, total, squares);
    Released released;
    return add_losses(rows, tree, permutation, LossOfNumbers{predicted.span(), truth.span(), is_squared}, weight.span(),
                      lost);
}

void changes_of_scores(const Rows& rows, std::size_t tree, const ConstIndices& order, const ConstSets& set_of_column,
                       const ConstIndices& shift, const Array<const bool, 1>& may_ask,
                       const Array<const double, 2>& scores, std::size_t first, const Array<double, 2>& as_they_are,
                       const Array<double, 3>& changed) {
    const Permutation permutation = checked_permutation(rows, tree, order, set_of_column, shift);
    const std::size_t n_scores = as_they_are.shape(1);
    may_ask.expect({rows.n_rows()}, "may_ask");
    scores.expect({rows.forest().n_nodes(), scores.shape(1)}, "scores");
    expect(first <= n_scores && scores.shape(1) <= n_scores - first, "the forest has fewer scores than the tree");
    as_they_are.expect({rows.n_rows(), n_scores}, "as_they_are");
    changed.expect({permutation.n_sets(), rows.n_rows(), n_scores}, "changed");
    Released released;
    add_changes(rows, tree, permutation, may_ask.span(),
                {scores.matrix(), first, n_scores, as_they_are.data(), changed.data()});
}

void bind(nb::module_& m) {
    m.def("losses_of_classes", &losses_of_classes, nb::arg("rows"), nb::arg("tree"), nb::arg("order"),
          nb::arg("set_of_column"), nb::arg("shift"), nb::arg("loss"), nb::arg("truth"), nb::arg("weight"),
          nb::arg("of_rows"), nb::arg("total"), nb::arg("squares"));
    m.def("losses_of_numbers", &losses_of_numbers, nb::arg("rows"), nb::arg("tree"), nb::arg("order"),
          nb::arg("set_of_column"), nb::arg("shift"), nb::arg("predicted"), nb::arg("truth"), nb::arg("is_squared"),
          nb::arg("weight"), nb::arg("of_rows"), nb::arg("total"), nb::arg("squares"));
    m.def("changes_of_scores", &changes_of_scores, nb::arg("rows"), nb::arg("tree"), nb::arg("order"),
          nb::arg("set_of_column"), nb::arg("shift"), nb::arg("may_ask"), nb::arg("scores"), nb::arg("first"),
          nb::arg("as_they_are"), nb::arg("changed"));
}

const Part PART(bind);

}  // namespace

}  // namespace rfsize
