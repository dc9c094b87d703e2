// Sums over rows and trees, permuted columns, theory and bags, as Python sees them.
#include "bags.hpp"
#include "bindings.hpp"
#include "count.hpp"
#include "permuted.hpp"
#include "theory.hpp"

namespace rfsize {

namespace {

template <class Vote>
void bind_count_votes(nb::module_& m) {
    m.def(
        "count_votes",
        [](const Array<const Vote, 2>& vote, const Array<const bool, 2>& may_vote,
           const Array<std::int32_t, 3>& counts) {
            may_vote.expect({vote.shape(0), vote.shape(1)}, "may_vote");
            counts.expect({vote.shape(0), counts.shape(1), counts.shape(2)}, "counts");
            expect(counts.shape(1) > 0, "there are no blocks");
            Released released;
            count_votes(vote.matrix(), may_vote.matrix(), counts.shape(1), counts.shape(2), counts.data());
        },
        nb::arg("vote"), nb::arg("may_vote"), nb::arg("counts"));
}

void expect_scores(const Array<const std::int64_t, 3>& leaf, const Array<const double, 2>& raw, std::size_t n_scores) {
    const std::size_t of_leaves = leaf.shape(2) > 1 ? leaf.shape(2) : leaf.shape(2) * raw.shape(1);
    expect(0 < n_scores && n_scores <= of_leaves && raw.shape(1) > 0, "the leaves have fewer scores than are added up");
}

void bind_counting(nb::module_& m) {
    bind_count_votes<bool>(m);
    bind_count_votes<std::int64_t>(m);
    m.def(
        "add_up_scores",
        [](const Array<const std::int64_t, 3>& leaf, const Array<const bool, 2>& may_vote,
           const Array<const double, 2>& raw, const Array<std::int32_t, 1>& n_votes, const Array<double, 2>& mean,
           const Array<double, 2>& scatter) {
            const std::size_t n_rows = leaf.shape(0), n_scores = mean.shape(1);
            expect_scores(leaf, raw, n_scores);
            may_vote.expect({n_rows, leaf.shape(1)}, "may_vote");
            n_votes.expect({n_rows}, "n_votes");
            mean.expect({n_rows, n_scores}, "mean");
            scatter.expect({n_rows, n_scores * (n_scores + 1) / 2}, "scatter");
            Released released;
            const LeafScores scores{leaf.data(), n_rows, leaf.shape(1), leaf.shape(2), raw.matrix()};
            if (n_scores == 1 && leaf.shape(2) == 1)
                add_up_one_score(scores, may_vote.matrix(), n_votes.span(), mean.matrix(), scatter.matrix());
            else
                add_up_scores(scores, may_vote.matrix(), n_votes.span(), mean.matrix(), scatter.matrix());
        },
        nb::arg("leaf"), nb::arg("may_vote"), nb::arg("raw"), nb::arg("n_votes"), nb::arg("mean"), nb::arg("scatter"));
    m.def(
        "add_by_part",
        [](const Array<const std::int64_t, 3>& leaf, const Array<const bool, 3>& may_score,
           const Array<const double, 2>& raw, const Array<double, 3>& total, const Array<std::uint16_t, 3>& n_scored) {
            const std::size_t n_rows = leaf.shape(0), n_parts = total.shape(1), n_scores = total.shape(2);
            const std::size_t n_bags = may_score.shape(2);
            may_score.expect({n_rows, leaf.shape(1), n_bags}, "may_score");
            total.expect({n_rows, n_parts, n_scores}, "total");
            n_scored.expect({n_rows, n_parts, n_bags}, "n_scored");
            expect(n_parts > 0 && (n_bags == 1 || n_bags == n_scores), "there are no parts, or bags of no scores");
            expect_scores(leaf, raw, n_scores);
            Released released;
            add_by_part({leaf.data(), n_rows, leaf.shape(1), leaf.shape(2), raw.matrix()},
                        {may_score.data(), leaf.shape(1), n_bags}, n_parts, n_scores, total.data(), n_scored.data());
        },
        nb::arg("leaf"), nb::arg("may_score"), nb::arg("raw"), nb::arg("total"), nb::arg("n_scored"));
    m.def(
        "deal_parts",
        [](const Array<const double, 3>& of_parts, const Array<const std::uint16_t, 3>& n_of_parts,
           const Array<double, 3>& total, const Array<double, 3>& squares, const Array<std::int32_t, 3>& n_scored,
           const Array<double, 3>& first, const Array<std::int64_t, 2>& n_first) {
            const std::size_t n_rows = of_parts.shape(0), n_parts = of_parts.shape(1), n_scores = of_parts.shape(2);
            const std::size_t n_bags = n_of_parts.shape(2), n_blocks = total.shape(1), most = first.shape(1);
            n_of_parts.expect({n_rows, n_parts, n_bags}, "n_of_parts");
            total.expect({n_rows, n_blocks, n_scores}, "total");
            squares.expect({n_rows, n_blocks, n_scores}, "squares");
            n_scored.expect({n_rows, n_blocks, n_bags}, "n_scored");
            first.expect({n_rows, most, n_scores}, "first");
            n_first.expect({n_rows, n_bags}, "n_first");
            expect(n_blocks > 0 && (n_bags == 1 || n_bags == n_scores), "there are no blocks, or bags of no scores");
            Released released;
            for (std::size_t i = 0; i < n_rows; ++i)
                deal_parts(of_parts.data() + i * n_parts * n_scores, n_of_parts.data() + i * n_parts * n_bags, n_parts,
                           n_scores, n_bags,
                           {n_blocks, most, total.data() + i * n_blocks * n_scores,
                            squares.data() + i * n_blocks * n_scores, n_scored.data() + i * n_blocks * n_bags,
                            first.data() + i * most * n_scores, n_first.data() + i * n_bags});
        },
        nb::arg("of_parts"), nb::arg("n_of_parts"), nb::arg("total"), nb::arg("squares"), nb::arg("n_scored"),
        nb::arg("first"), nb::arg("n_first"));
    m.def(
        "add_at_leaves",
        [](const Array<const std::int64_t, 3>& leaf, const Array<const bool, 3>& seen,
           const Array<const double, 3>& value, const Array<double, 1>& total) {
            const std::size_t n_members = leaf.shape(1), n_outputs = leaf.shape(2);
            const auto fits = [&](std::size_t rows, std::size_t members, std::size_t outputs) {
                return rows == leaf.shape(0) && (members == 1 || members == n_members) &&
                       (outputs == 1 || outputs == n_outputs);
            };
            expect(fits(seen.shape(0), seen.shape(1), seen.shape(2)), "seen does not fit the leaves");
            expect(fits(value.shape(0), value.shape(1), value.shape(2)), "value does not fit the leaves");
            Released released;
            add_at_leaves(leaf.data(), leaf.shape(0), n_members, n_outputs, {seen.data(), seen.shape(1), seen.shape(2)},
                          {value.data(), value.shape(1), value.shape(2)}, total.span());
        },
        nb::arg("leaf"), nb::arg("seen"), nb::arg("value"), nb::arg("total"));
}

void expect_all_below(std::span<const std::int64_t> indices, std::size_t size, const char* message) {
    for (const std::int64_t index : indices) expect(static_cast<std::uint64_t>(index) < size, message);
}

Permutation checked_permutation(const Rows& rows, std::size_t tree, const ConstIndices& order, const ConstBounds& sets,
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

void changes_of_scores(const Rows& rows, std::size_t tree, const ConstIndices& order, const ConstBounds& set_of_column,
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

void bind_permuted(nb::module_& m) {
    m.def("changes_of_scores", &changes_of_scores, nb::arg("rows"), nb::arg("tree"), nb::arg("order"),
          nb::arg("set_of_column"), nb::arg("shift"), nb::arg("is_oob"), nb::arg("scores"), nb::arg("first"),
          nb::arg("as_they_are"), nb::arg("changed"));
}

void bind_theory(nb::module_& m) {
    m.def(
        "disagreement",
        [](std::int64_t n_trees, const ConstDoubles& leader, const ConstIndices& first, const ConstDoubles& rival,
           const Array<const bool, 1>& wins_ties, const Array<double, 1>& out) {
            first.expect({leader.size() + 1}, "first");
            wins_ties.expect({rival.size()}, "wins_ties");
            out.expect({leader.size()}, "out");
            std::int64_t last = 0;
            for (const std::int64_t start : first.span()) {
                expect(last <= start && static_cast<std::size_t>(start) <= rival.size(),
                       "the rivals of a row do not begin where those of another end");
                last = start;
            }
            Released released;
            disagreement(n_trees, leader.span(), first.span(), rival.span(), wins_ties.span(), out.span());
        },
        nb::arg("n_trees"), nb::arg("leader"), nb::arg("first"), nb::arg("rival"), nb::arg("wins_ties"),
        nb::arg("out"));
}

void bind_bags(nb::module_& m) {
    m.def(
        "draw_lightgbm",
        [](const Array<const std::uint32_t, 1>& first, const Array<const std::uint32_t, 1>& multiplier,
           const Array<const std::uint32_t, 1>& increment, const ConstIndices& level, const Array<bool, 2>& inbag,
           std::size_t row, std::size_t tree) {
            increment.expect({multiplier.size()}, "increment");
            level.expect({first.size()}, "level");
            const auto fits = [](std::size_t start, std::size_t n, std::size_t size) {
                return n <= size && start <= size - n;
            };
            expect(fits(row, first.size(), inbag.shape(0)) && fits(tree, multiplier.size(), inbag.shape(1)),
                   "inbag has no room for the draws");
            Released released;
            draw_lightgbm(first.span(), multiplier.span(), increment.span(), level.span(),
                          inbag.data() + row * inbag.shape(1) + tree, inbag.shape(1));
        },
        nb::arg("first"), nb::arg("multiplier"), nb::arg("increment"), nb::arg("level"), nb::arg("inbag"),
        nb::arg("row"), nb::arg("tree"));
    m.def(
        "draw_xgboost",
        [](const Array<const std::uint64_t, 1>& step, const Array<const std::uint64_t, 1>& tree_seed, double level,
           const Array<bool, 2>& inbag) {
            inbag.expect({step.size(), tree_seed.size()}, "inbag");
            Released released;
            draw_xgboost(step.span(), tree_seed.span(), level, inbag.matrix());
        },
        nb::arg("step"), nb::arg("tree_seed"), nb::arg("level"), nb::arg("inbag"));
}

}  // namespace

void bind_sums(nb::module_& m) {
    bind_counting(m);
    bind_permuted(m);
    bind_theory(m);
    bind_bags(m);
}

}  // namespace rfsize
