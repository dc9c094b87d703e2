// Sums over rows and trees, permuted columns, theory and bags, as Python sees them.
#include "bags.hpp"
#include "bindings.hpp"
#include "count.hpp"
#include "permuted.hpp"
#include "theory.hpp"

namespace rfsize {

namespace {

template <class Vote>
void add_votes(const Array<const Vote, 2>& vote, const Array<const bool, 2>& may_vote,
               const Array<std::int32_t, 3>& counts) {
    may_vote.expect({vote.shape(0), vote.shape(1)}, "may_vote");
    counts.expect({vote.shape(0), counts.shape(1), counts.shape(2)}, "counts");
    expect(counts.shape(1) > 0, "there are no blocks");
    Released released;
    count_votes(vote.matrix(), may_vote.matrix(), counts.cube());
}

LeafScores checked_scores(const Array<const std::int64_t, 3>& leaf, const Array<const double, 2>& raw,
                          std::size_t n_scores) {
    const std::size_t of_leaves = leaf.shape(2) > 1 ? leaf.shape(2) : leaf.shape(2) * raw.shape(1);
    expect(0 < n_scores && n_scores <= of_leaves && raw.shape(1) > 0, "the leaves have fewer scores than are added up");
    return {leaf.cube(), raw.matrix()};
}

void bind_counting(nb::module_& m) {
    m.def("count_votes", &add_votes<bool>, "vote"_a, "may_vote"_a, "counts"_a);
    m.def("count_votes", &add_votes<std::int64_t>, "vote"_a, "may_vote"_a, "counts"_a);
    m.def(
        "add_up_scores",
        [](const Array<const std::int64_t, 3>& leaf, const Array<const bool, 2>& may_vote,
           const Array<const double, 2>& raw, const Array<std::int32_t, 1>& n_votes, const Array<double, 2>& mean,
           const Array<double, 2>& scatter) {
            const std::size_t n_rows = leaf.shape(0), n_scores = mean.shape(1);
            const LeafScores scores = checked_scores(leaf, raw, n_scores);
            may_vote.expect({n_rows, leaf.shape(1)}, "may_vote");
            n_votes.expect({n_rows}, "n_votes");
            mean.expect({n_rows, n_scores}, "mean");
            scatter.expect({n_rows, n_scores * (n_scores + 1) / 2}, "scatter");
            Released released;
            if (n_scores == 1 && leaf.shape(2) == 1)
                add_up_scores<true>(scores, may_vote.matrix(), n_votes.span(), mean.matrix(), scatter.matrix());
            else
                add_up_scores<false>(scores, may_vote.matrix(), n_votes.span(), mean.matrix(), scatter.matrix());
        },
        "leaf"_a, "may_vote"_a, "raw"_a, "n_votes"_a, "mean"_a, "scatter"_a);
    m.def(
        "add_by_part",
        [](const Array<const std::int64_t, 3>& leaf, const Array<const bool, 3>& may_score,
           const Array<const double, 2>& raw, const Array<double, 3>& total, const Array<std::uint16_t, 3>& n_scored) {
            const std::size_t n_rows = leaf.shape(0), n_parts = total.shape(1), n_scores = total.shape(2);
            const std::size_t n_bags = may_score.shape(2);
            const LeafScores scores = checked_scores(leaf, raw, n_scores);
            may_score.expect({n_rows, leaf.shape(1), n_bags}, "may_score");
            total.expect({n_rows, n_parts, n_scores}, "total");
            n_scored.expect({n_rows, n_parts, n_bags}, "n_scored");
            expect(n_parts > 0 && (n_bags == 1 || n_bags == n_scores), "there are no parts, or bags of no scores");
            Released released;
            add_by_part(scores, may_score.cube(), total.cube(), n_scored.cube());
        },
        "leaf"_a, "may_score"_a, "raw"_a, "total"_a, "n_scored"_a);
    m.def(
        "deal_parts",
        [](const Array<const double, 3>& of_parts, const Array<const std::uint16_t, 3>& n_of_parts, std::size_t block,
           const Array<double, 3>& total, const Array<double, 3>& squares, const Array<std::int32_t, 3>& n_scored,
           const Array<double, 3>& first, const Array<std::int64_t, 2>& n_first) {
            const std::size_t n_rows = of_parts.shape(0), n_scores = of_parts.shape(2);
            const std::size_t n_bags = n_of_parts.shape(2), n_blocks = total.shape(1);
            n_of_parts.expect({n_rows, of_parts.shape(1), n_bags}, "n_of_parts");
            total.expect({n_rows, n_blocks, n_scores}, "total");
            squares.expect({n_rows, n_blocks, n_scores}, "squares");
            n_scored.expect({n_rows, n_blocks, n_bags}, "n_scored");
            first.expect({n_rows, first.shape(1), n_scores}, "first");
            n_first.expect({n_rows, n_bags}, "n_first");
            expect(block < n_blocks && (n_bags == 1 || n_bags == n_scores), "no such block, or bags of no scores");
            Released released;
            for (std::size_t i = 0; i < n_rows; ++i)
                deal_parts(of_parts.cube()[i], n_of_parts.cube()[i], block, total.cube()[i], squares.cube()[i],
                           n_scored.cube()[i], first.cube()[i], n_first.matrix()[i]);
        },
        "of_parts"_a, "n_of_parts"_a, "block"_a, "total"_a, "squares"_a, "n_scored"_a, "first"_a, "n_first"_a);
    m.def(
        "add_at_leaves",
        [](const Array<const std::int64_t, 3>& leaf, const Array<const bool, 3>& seen,
           const Array<const double, 3>& value, const Array<double, 1>& total) {
            const auto fits = [&](const auto& array) {
                return array.shape(0) == leaf.shape(0) && (array.shape(1) == 1 || array.shape(1) == leaf.shape(1)) &&
                       (array.shape(2) == 1 || array.shape(2) == leaf.shape(2));
            };
            expect(fits(seen) && fits(value), "seen or value does not fit the leaves");
            Released released;
            add_at_leaves(leaf.cube(), seen.cube(), value.cube(), total.span());
        },
        "leaf"_a, "seen"_a, "value"_a, "total"_a);
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
    add_changes(rows, tree, permutation, is_oob.span(), scores.matrix(), first, as_they_are.matrix(), changed.cube());
}

void bind_theory(nb::module_& m) {
    m.def("changes_of_scores", &changes_of_scores, "rows"_a, "tree"_a, "order"_a, "set_of_column"_a, "shift"_a,
          "is_oob"_a, "scores"_a, "first"_a, "as_they_are"_a, "changed"_a);
    m.def(
        "disagreement",
        [](std::int64_t n_trees, const ConstDoubles& leader, const ConstIndices& first, const ConstDoubles& rival,
           const Array<const bool, 1>& wins_ties, const Array<double, 1>& out) {
            first.expect({leader.size() + 1}, "first");
            wins_ties.expect({rival.size()}, "wins_ties");
            out.expect({leader.size()}, "out");
            expect_ascending(first.span(), rival.size(), "the rivals of a row do not begin where those of another end");
            Released released;
            disagreement(n_trees, leader.span(), first.span(), rival.span(), wins_ties.span(), out.span());
        },
        "n_trees"_a, "leader"_a, "first"_a, "rival"_a, "wins_ties"_a, "out"_a);
}

void bind_bags(nb::module_& m) {
    m.def(
        "draw_lightgbm",
        [](const Array<const std::uint32_t, 1>& first, const Array<const std::uint32_t, 1>& multiplier,
           const Array<const std::uint32_t, 1>& increment, const ConstIndices& level, const Array<bool, 2>& inbag,
           std::size_t first_tree) {
            increment.expect({multiplier.size()}, "increment");
            level.expect({first.size()}, "level");
            expect(inbag.shape(0) == first.size() && first_tree <= inbag.shape(1) &&
                       multiplier.size() <= inbag.shape(1) - first_tree,
                   "inbag has no room for the draws");
            Released released;
            draw_lightgbm(first.span(), multiplier.span(), increment.span(), level.span(), inbag.matrix(), first_tree);
        },
        "first"_a, "multiplier"_a, "increment"_a, "level"_a, "inbag"_a, "first_tree"_a);
    m.def(
        "draw_xgboost",
        [](const Array<const std::uint64_t, 1>& step, const Array<const std::uint64_t, 1>& tree_seed, double level,
           const Array<bool, 2>& inbag) {
            inbag.expect({step.size(), tree_seed.size()}, "inbag");
            Released released;
            draw_xgboost(step.span(), tree_seed.span(), level, inbag.matrix());
        },
        "step"_a, "tree_seed"_a, "level"_a, "inbag"_a);
}

}  // namespace

void bind_sums(nb::module_& m) {
    bind_counting(m);
    bind_theory(m);
    bind_bags(m);
}

}  // namespace rfsize
