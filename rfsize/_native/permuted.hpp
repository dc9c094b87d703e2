// Rows down a tree with columns of other rows in place of their own, for permutation importances.
#pragma once

#include <vector>

#include "rows.hpp"

namespace rfsize {

// Which columns are permuted together, and among which rows. A row at a place of the order takes the columns of a set
// from the row that stands as many places further as the set is shifted, and after the last comes the first.
struct Permutation {
    std::span<const std::int64_t> order;
    std::span<const std::int32_t> set_of_column;  // -1 where a column stays
    std::span<const std::int64_t> shift;          // of each set

    std::size_t n_sets() const { return shift.size(); }
    std::size_t row(std::size_t place) const { return static_cast<std::size_t>(order[place]); }
    std::size_t donor(std::size_t place, std::size_t set) const {
        const std::size_t at = place + static_cast<std::size_t>(shift[set]);
        return row(at < order.size() ? at : at - order.size());
    }
};

// The node that a row comes to with the columns of a set from its donor.
struct Detour {
    std::size_t set;
    std::uint32_t node;
};

// Takes rows down a tree, and again for each set of columns that their way meets. All other sets leave a row where it
// is, and a row goes again only from the first split on that tests the set.
class Detours {
public:
    Detours(const Rows& rows, const Permutation& permutation)
        : rows_(rows),
          forest_(rows.forest()),
          trees_(forest_.view()),
          permuted_(permutation),
          last_met_(permutation.n_sets(), 0) {}

    // The leaf of the row at a place of the order; `detours` has the ways that lead to another.
    std::uint32_t take(std::size_t tree, std::size_t place) {
        const std::uint16_t* own = columns_of(permuted_.row(place));
        auto node = static_cast<std::uint32_t>(forest_.nodes().tree_start[tree]);
        met_.clear();
        detours_.clear();
        ++n_taken_;
        for (; is_open(node); node = child_of<true>(trees_, node, own)) {
            const auto set = static_cast<std::size_t>(permuted_.set_of_column[column(node)]);
            if (set >= last_met_.size() || last_met_[set] == n_taken_) continue;  // -1 is beyond all
            last_met_[set] = n_taken_;
            met_.push_back({set, node});
        }
        for (const auto& [set, first] : met_) {
            const std::uint16_t* other = columns_of(permuted_.donor(place, set));
            const auto number = static_cast<std::int32_t>(set);
            std::uint32_t at = first;
            while (is_open(at))
                at = child_of<true>(trees_, at, permuted_.set_of_column[column(at)] == number ? other : own);
            if (at != node) detours_.push_back({set, at});
        }
        return node;
    }

    std::span<const Detour> detours() const { return detours_; }

private:
    const Rows& rows_;
    const Forest& forest_;
    NodesView trees_;
    const Permutation& permuted_;
    std::vector<std::uint64_t> last_met_;
    std::vector<Detour> met_, detours_;  // where a set is tested first, and where rows end by it
    std::uint64_t n_taken_ = 0;

    const std::uint16_t* columns_of(std::size_t row) const { return rows_.q() + row * forest_.n_columns(); }
    bool is_open(std::uint32_t node) const { return (trees_.nodes[node] & RANK_MASK) != RANK_MASK; }
    std::size_t column(std::uint32_t node) const { return (trees_.nodes[node] >> COLUMN_SHIFT) & COLUMN_MASK; }
};

// Add a tree's scores of the rows that it was not trained on to as_they_are, of rows and scores, and their changes by
// each set to changed, of sets, rows and scores. of_leaf are the scores of its nodes, and first their place among all
// scores.
inline void add_changes(const Rows& rows, std::size_t tree, const Permutation& permutation,
                        std::span<const bool> is_oob, const Matrix<const double>& of_leaf, std::size_t first,
                        const Matrix<double>& as_they_are, const Cube<double>& changed) {
    Detours detours(rows, permutation);
    for (std::size_t place = 0; place < permutation.order.size(); ++place) {
        const std::size_t row = permutation.row(place);
        if (!is_oob[row]) continue;
        const std::uint32_t leaf = detours.take(tree, place);
        for (std::size_t k = 0; k < of_leaf.columns; ++k) {
            const double own = of_leaf[leaf][k];
            as_they_are[row][first + k] += own;
            for (const Detour& detour : detours.detours())
                changed[detour.set][row][first + k] += of_leaf[detour.node][k] - own;
        }
    }
}

}  // namespace rfsize
