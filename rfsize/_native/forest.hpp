// A forest as one object, on arrays that it keeps alive. Everything is checked when it is made, so that no later index
// goes astray.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "primitives.hpp"

namespace rfsize {

inline constexpr std::uint16_t HIGHEST_RANK = 0xFFFF;

// What a split does with a missing value; see rfsize/models/ensemble.py.
enum Missing : std::uint8_t { AS_ZERO, ZERO_RIGHT, ZERO_LEFT, NAN_RIGHT, NAN_LEFT, CATEGORY };

// How the framework reads a number.
struct Reading {
    bool single_precision;
    double missing, zero_within, lowest_category;
    bool absent_is_missing, refuses_infinite, refuses_missing;

    // A value as the framework reads it, NaN where it is missing.
    double read(double value) const {
        const double number = single_precision ? static_cast<double>(static_cast<float>(value)) : value;
        if (number == missing) return std::numeric_limits<double>::quiet_NaN();
        return std::abs(number) <= zero_within ? 0.0 : number;
    }
};

// Scores and votes of leaves; scores are of either precision, and the other is empty.
template <template <class> class List>
struct Values {
    List<float> floats;
    List<double> doubles;
    List<std::uint16_t> vote;

    template <class Real>
    const Real* value() const {
        if constexpr (sizeof(Real) == sizeof(float))
            return floats.data();
        else
            return doubles.data();
    }
};
template <class T>
using View = std::span<const T>;
template <class T>
using Owned = std::vector<T>;

// The arrays of `Nodes`.
struct Nodes : Values<View> {
    std::size_t width = 0;
    View<std::uint64_t> nodes;
    View<std::int64_t> tree_start, bit_start;
    View<std::uint32_t> bits;
};

// The arrays of `Columns`.
struct Columns {
    View<std::int64_t> feature, cut_start;
    View<double> cuts;
    View<std::int64_t> start;
    View<std::uint8_t> missing;
    View<std::int64_t> base;
};

// Rows so few that each goes down many trees together, instead of many rows down one tree.
inline constexpr std::size_t FEW = 16;

// Where a row is in a tree whose splits all rows of a block pass together: the id of its leaf, counted in its tree.
struct LeafIds {
    const std::uint8_t* at;
    std::size_t first, n;  // of the tree's ids among all, and how many there are
};

// Where walkers are: the node of the leaf.
struct LeafPlaces {
    const std::uint32_t* at;
};

// The search for keys among the ascending cuts of a column, as primitives do it.
class Search {
public:
    explicit Search(std::vector<double> cuts) : cuts_(std::move(cuts)), n_cuts_(cuts_.size()) {
        if (n_cuts_ >= FEWEST) divide();
        cuts_.insert(cuts_.end(), parts_.widest + CUTS_AT_ONCE, std::numeric_limits<double>::infinity());
    }

    void rank(const double* key, std::size_t n, std::uint32_t* rank) const {
        primitives().rank(key, n, cuts_.data(), n_cuts_, parts_, rank);
    }

private:
    // Fewer cuts are bisected in no more steps, and no more parts are made.
    static constexpr std::size_t FEWEST = 4 * CUTS_AT_ONCE, MOST = 4096;

    std::vector<double> cuts_;
    std::size_t n_cuts_;
    std::vector<std::uint32_t> start_;
    Parts parts_{0.0, 0.0, 0.0, nullptr, 0};

    // Divide the range of the cuts, unless most of them would lie in few parts.
    void divide() {
        const std::size_t n_parts = std::min(std::bit_ceil(2 * n_cuts_), MOST);
        Parts parts{cuts_.front(), static_cast<double>(n_parts) / (cuts_.back() - cuts_.front()),
                    static_cast<double>(n_parts - 1), nullptr, 0};
        if (!std::isnormal(parts.scale) || !std::isfinite(cuts_.back() - cuts_.front())) return;
        std::vector<std::uint32_t> start(n_parts + 1);
        for (double cut : cuts_)  // by the operations of the primitive, so that no cut and key change their order
            ++start[static_cast<std::size_t>(std::min((cut - parts.lowest) * parts.scale, parts.last)) + 1];
        parts.widest = *std::max_element(start.begin(), start.end());
        if (4 * parts.widest > n_cuts_) return;
        std::partial_sum(start.begin(), start.end(), start.begin());
        start_ = std::move(start);
        parts.start = start_.data();  // which stays where it is when the search is moved
        parts_ = parts;
    }
};

class Forest {
public:
    // owner keeps the arrays, which do not change.
    Forest(const Nodes& nodes, const Columns& columns, std::size_t n_outputs, std::size_t n_features, Reading reading,
           std::shared_ptr<const void> owner)
        : owner_(std::move(owner)),
          nodes_(nodes),
          columns_(columns),
          n_outputs_(n_outputs),
          n_features_(n_features),
          reading_(reading) {
        check_sizes();
        check_columns();
        const std::vector<Tested> tested = tested_by_columns();
        for (std::size_t tree = 0; tree < n_trees(); ++tree) check_tree(tree, tested);
        shorten_nodes();
        for (std::size_t entry = 0; entry < columns_.feature.size(); ++entry)
            searches_.emplace_back(std::vector<double>(cuts(entry).begin(), cuts(entry).end()));
        absent_.resize(n_columns());
        const double absent = reading_.absent_is_missing ? std::numeric_limits<double>::quiet_NaN() : 0.0;
        for (std::size_t entry = 0; entry < columns_.feature.size(); ++entry)
            quantise_one(absent, entry, absent_.data());
    }

    const Nodes& nodes() const { return nodes_; }
    std::size_t n_trees() const { return nodes_.tree_start.size() - 1; }
    std::size_t n_outputs() const { return n_outputs_; }
    std::size_t n_members() const { return n_trees() / n_outputs_; }
    std::size_t n_scores() const { return n_outputs_ * nodes_.width; }
    std::size_t n_features() const { return n_features_; }
    const Reading& reading() const { return reading_; }
    std::size_t n_columns() const { return std::max<std::size_t>(1, columns_.missing.size()); }
    std::size_t n_nodes() const { return nodes_.nodes.size(); }
    // Classes that leaves vote for; 0 where they do not.
    std::size_t n_voted() const { return n_voted_; }
    bool is_single() const { return !nodes_.floats.empty(); }
    bool has_categories() const { return !nodes_.bits.empty(); }

    NodesView view() const {
        return {nodes_.nodes.data(), has_categories() ? nodes_.bit_start.data() : nullptr, nodes_.bits.data()};
    }

    // Whether a single row may go down nodes of half the size, which stand in the same places.
    bool has_short_nodes() const { return !short_nodes_.empty(); }
    const std::uint32_t* short_nodes() const { return short_nodes_.data(); }

    // ------------------------------------------------------------------------------------------------- leaves

    // Whether ranks fit a byte, but for a few that walkers take.
    bool is_narrow() const { return first_splits().is_narrow; }
    std::span<const Split> splits(std::size_t tree) const {
        return part(first_splits().splits, first_splits().split_start, tree);
    }
    // Whether a tree has no splits but these, so that ids are leaves.
    bool is_passed(std::size_t tree) const { return first_splits().is_passed[tree]; }
    std::span<const std::uint32_t> place_of_id(std::size_t tree) const {
        return part(first_splits().place_of_id, first_splits().id_start, tree);
    }
    LeafIds leaves(std::size_t tree, const std::uint8_t* at) const {
        return {at, first_splits().id_start[tree], place_of_id(tree).size()};
    }

    template <class Real>
    const Real* values(LeafIds leaves) const {
        return first_splits().of_id.value<Real>() + leaves.first * nodes_.width;
    }
    template <class Real>
    const Real* values(LeafPlaces) const {
        return nodes_.value<Real>();
    }
    const std::uint16_t* votes(LeafIds leaves) const { return first_splits().of_id.vote.data() + leaves.first; }
    const std::uint16_t* votes(LeafPlaces) const { return nodes_.vote.data(); }

    // Depth that a tree of as many nodes has at least.
    std::size_t balanced_depth(std::size_t tree) const {
        const std::int64_t nodes = nodes_.tree_start[tree + 1] - nodes_.tree_start[tree];
        return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(nodes)) - 1);
    }

    // ------------------------------------------------------------------------------------------------- rows

    // Fill the columns of one entry from a value as it is given.
    void quantise_one(double given, std::size_t entry, std::uint16_t* out) const {
        const double value = reading_.read(given), key = key_of(value, is_category(entry));
        std::uint32_t below = 0;
        searches_[entry].rank(&key, 1, &below);  // without a branch, which std::lower_bound takes for each cut
        fill(value, key, below, entry, out);
    }

    // Fill the columns of rows.
    template <class Matrix>
    void quantise(const Matrix& X, std::uint16_t* out) const {
        // Where no tree splits, rows have one column, which leaves compare.
        if (columns_.feature.empty()) std::fill_n(out, X.rows, std::uint16_t{0});
        if (X.rows <= FEW) {
            double given = 0.0;
            for (std::size_t row = 0; row < X.rows; ++row, out += n_columns())
                for (std::size_t entry = 0; entry < columns_.feature.size(); ++entry) {
                    X.read(row, 1, static_cast<std::size_t>(columns_.feature[entry]), &given);
                    quantise_one(given, entry, out);
                }
            return;
        }
        constexpr std::size_t block = 128;  // of which all columns stay in the fastest cache
        std::vector<double> value(block), key(block);
        std::vector<std::uint32_t> rank(block);
        std::vector<std::uint16_t> compared(block);
        for (std::size_t first = 0; first < X.rows; first += block) {
            const std::size_t rows = std::min(block, X.rows - first);
            for (std::size_t entry = 0; entry < columns_.feature.size(); ++entry) {
                const auto feature = static_cast<std::size_t>(columns_.feature[entry]);
                X.read(first, rows, feature, value.data());
                primitives().read(value.data(), rows, reading_.single_precision, reading_.missing,
                                  reading_.zero_within);
                const bool of_category = is_category(entry);
                for (std::size_t i = 0; i < rows; ++i) key[i] = key_of(value[i], of_category);
                searches_[entry].rank(key.data(), rows, rank.data());
                fill_many(value.data(), key.data(), rank.data(), rows, entry, compared.data(),
                          out + first * n_columns());
            }
        }
    }

    // The rows of a compressed sparse row matrix, whose indices were checked.
    void quantise_sparse(std::span<const double> data, std::span<const std::int64_t> index,
                         std::span<const std::int64_t> start, std::uint16_t* out) const {
        for (std::size_t i = 0; i + 1 < start.size(); ++i, out += n_columns()) {
            std::copy(absent_.begin(), absent_.end(), out);
            for (auto stored = static_cast<std::size_t>(start[i]); stored < static_cast<std::size_t>(start[i + 1]);
                 ++stored) {
                const auto [first, last] =
                    std::equal_range(columns_.feature.begin(), columns_.feature.end(), index[stored]);
                for (auto entry = first; entry != last; ++entry)
                    quantise_one(data[stored], static_cast<std::size_t>(entry - columns_.feature.begin()), out);
            }
        }
    }

private:
    // The first splits of each tree, which many rows pass together, and ids of the nodes that they come to.
    struct FirstSplits {
        bool is_narrow = true;
        std::vector<Split> splits;
        std::vector<std::size_t> split_start{0}, id_start{0};
        std::vector<std::uint32_t> place_of_id;
        std::vector<bool> is_passed;
        Values<Owned> of_id;
    };

    std::shared_ptr<const void> owner_;
    Nodes nodes_;
    Columns columns_;
    std::size_t n_outputs_, n_features_, n_voted_ = 0;
    Reading reading_;
    std::vector<std::uint32_t> short_nodes_;
    std::vector<std::uint16_t> absent_;
    std::vector<Search> searches_;  // of each entry
    mutable std::once_flag is_split_;
    mutable FirstSplits first_splits_;

    // Made when many rows come first, since a forest may be loaded for single rows.
    const FirstSplits& first_splits() const {
        std::call_once(is_split_, [this] {
            FirstSplits made;  // of which nothing is kept if memory runs out
            number_leaves(made);
            first_splits_ = std::move(made);
        });
        return first_splits_;
    }

    template <class T>
    static std::span<const T> part(const std::vector<T>& of, const std::vector<std::size_t>& start, std::size_t which) {
        return std::span(of).subspan(start[which], start[which + 1] - start[which]);
    }

    std::span<const double> cuts(std::size_t entry) const {
        const auto first = static_cast<std::size_t>(columns_.cut_start[entry]);
        return columns_.cuts.subspan(first, static_cast<std::size_t>(columns_.cut_start[entry + 1]) - first);
    }

    bool is_category(std::size_t entry) const {
        return columns_.missing[static_cast<std::size_t>(columns_.start[entry])] == CATEGORY;
    }

    // What is compared with the cuts.
    static double key_of(double value, bool of_category) {
        const double number = std::isnan(value) ? 0.0 : value;
        return of_category ? std::trunc(number) : number;
    }

    // Fill the columns of an entry from many values.
    void fill_many(const double* value, const double* key, const std::uint32_t* rank, std::size_t n, std::size_t entry,
                   std::uint16_t* compared, std::uint16_t* out) const {
        const std::size_t width = n_columns();
        if (is_category(entry)) {
            for (std::size_t i = 0; i < n; ++i) fill(value[i], key[i], rank[i], entry, out + i * width);
            return;
        }
        for (auto column = static_cast<std::size_t>(columns_.start[entry]);
             column < static_cast<std::size_t>(columns_.start[entry + 1]); ++column) {
            primitives().compare(value, rank, n, column_of(column), compared);
            for (std::size_t i = 0; i < n; ++i) out[i * width + column] = compared[i];
        }
    }

    // What a column of numbers does with values.
    NumbersColumn column_of(std::size_t column) const {
        const std::uint8_t missing = columns_.missing[column];
        const bool goes_right = missing == ZERO_RIGHT || missing == NAN_RIGHT;
        return {missing != AS_ZERO, missing == ZERO_RIGHT || missing == ZERO_LEFT,
                goes_right ? HIGHEST_RANK : std::uint16_t{0}, static_cast<std::uint32_t>(columns_.base[column])};
    }

    void fill(double value, double key, std::size_t rank, std::size_t entry, std::uint16_t* out) const {
        const auto first = static_cast<std::size_t>(columns_.start[entry]);
        if (is_category(entry)) {
            out[first] = category_rank(value, key, rank, cuts(entry));
            return;
        }
        for (std::size_t column = first; column < static_cast<std::size_t>(columns_.start[entry + 1]); ++column)
            out[column] = compared_with(column_of(column), value, static_cast<std::uint32_t>(rank));
    }

    // Rank of a category: one more than those of all known ones where it is missing, two where it is unknown.
    std::uint16_t category_rank(double value, double key, std::size_t rank, std::span<const double> known) const {
        const bool is_known = value > reading_.lowest_category && rank < known.size() && known[rank] == key;
        return static_cast<std::uint16_t>(is_known ? rank : known.size() + (std::isnan(value) ? 0 : 1));
    }

    static void expect(bool holds, const std::string& what) {
        if (!holds) throw std::invalid_argument("the forest is damaged: " + what);
    }

    // Whether parts of something begin at 0 and end where that does, and none begins out of order with the next.
    template <class OutOfOrder>
    static bool are_parts(View<std::int64_t> start, std::size_t parts, std::size_t size, OutOfOrder out_of_order) {
        return start.size() == parts + 1 && start.front() == 0 && start.back() == static_cast<std::int64_t>(size) &&
               std::adjacent_find(start.begin(), start.end(), out_of_order) == start.end();
    }

    void check_sizes() {
        const std::size_t n = n_nodes();
        expect(n > 0 && n <= std::size_t{1} << 28, "it has no nodes, or more than a node can name");
        expect(nodes_.tree_start.size() > 1 && are_parts(nodes_.tree_start, n_trees(), n, std::greater_equal()) &&
                   n_outputs_ > 0 && n_trees() % n_outputs_ == 0,
               "its trees are not parts of its nodes, or not as many for each output");
        expect(nodes_.width > 0 && (n_outputs_ == 1 || nodes_.width == 1),
               "its leaves hold too few or too many scores");
        expect(nodes_.floats.size() + nodes_.doubles.size() == n * nodes_.width &&
                   (nodes_.floats.empty() || nodes_.doubles.empty()),
               "it has not one value for each node and score");
        expect((nodes_.vote.empty() || nodes_.vote.size() == n) &&
                   nodes_.bit_start.size() == (nodes_.bits.empty() ? 0 : n),
               "it has not one vote and one set for each node");
        if (!nodes_.vote.empty()) n_voted_ = std::size_t{*std::max_element(nodes_.vote.begin(), nodes_.vote.end())} + 1;
    }

    void check_columns() const {
        const std::size_t entries = columns_.feature.size();
        expect(columns_.missing.size() <= COLUMN_MASK + 1, "it has more columns than a node can name");
        expect(columns_.missing.size() == columns_.base.size(), "its columns are not alike in number");
        expect(are_parts(columns_.cut_start, entries, columns_.cuts.size(), std::greater()),
               "its thresholds are not parts of all");
        expect(are_parts(columns_.start, entries, columns_.missing.size(), std::greater_equal()),
               "its columns are not parts of all");
        for (std::size_t entry = 0; entry < entries; ++entry) {
            const std::int64_t feature = columns_.feature[entry];
            expect(feature >= (entry ? columns_.feature[entry - 1] : 0) &&
                       feature < static_cast<std::int64_t>(n_features_),
                   "a column is of a feature that the rows do not have");
            const std::int64_t first = columns_.start[entry], last = columns_.start[entry + 1];
            const std::span<const double> own = cuts(entry);
            for (std::size_t i = 0; i < own.size(); ++i)
                expect(i == 0 ? !std::isnan(own[i]) : own[i - 1] < own[i],
                       "the thresholds of a feature are out of order");
            expect(!is_category(entry) || (last == first + 1 && own.size() < HIGHEST_RANK),
                   "a column holds too many categories");
            for (auto column = static_cast<std::size_t>(first); column < static_cast<std::size_t>(last); ++column) {
                expect(columns_.missing[column] <= CATEGORY &&
                           (columns_.missing[column] == CATEGORY) == is_category(entry),
                       "a column treats missing values in an unknown way");
                expect(columns_.base[column] >= 0 &&
                           (is_category(entry) || static_cast<std::size_t>(columns_.base[column]) < own.size()),
                       "a column has no thresholds");
            }
        }
    }

    // What a split may compare in a column: ranks below a number of a number, or sets of so many categories.
    struct Tested {
        std::uint32_t ranks, categories;
    };

    std::vector<Tested> tested_by_columns() const {
        std::vector<Tested> tested;
        for (std::size_t entry = 0; entry < columns_.feature.size(); ++entry)
            for (std::int64_t column = columns_.start[entry]; column < columns_.start[entry + 1]; ++column) {
                const std::size_t n_cuts = cuts(entry).size(),
                                  above = n_cuts - static_cast<std::size_t>(columns_.base[tested.size()]);
                const auto ranks = static_cast<std::uint32_t>(std::min<std::size_t>(above, RANK_MASK));
                tested.push_back(is_category(entry) ? Tested{0, static_cast<std::uint32_t>(n_cuts + 2)}
                                                    : Tested{ranks, 0});
            }
        tested.push_back({0, 0});  // where there is no such column
        return tested;
    }

    // Without branches but for categories: nobody foresees where leaves are.
    void check_tree(std::size_t tree, const std::vector<Tested>& tested) const {
        const auto first = static_cast<std::uint64_t>(nodes_.tree_start[tree]),
                   last = static_cast<std::uint64_t>(nodes_.tree_start[tree + 1]);
        const std::uint64_t* nodes = nodes_.nodes.data();
        const std::size_t n_columns = tested.size() - 1;
        std::uint64_t splits = 0;
        bool is_damaged = false;
        for (std::uint64_t place = first; place < last; ++place) {
            const std::uint64_t node = nodes[place], left = node >> LEFT_SHIFT, rank = node & RANK_MASK;
            const bool is_split = rank != RANK_MASK;
            const Tested& of_column = tested[std::min<std::size_t>((node >> COLUMN_SHIFT) & COLUMN_MASK, n_columns)];
            // Breadth first: the children of the k-th split of a tree are its nodes 2k + 1 and 2k + 2.
            const bool has_children = (left == first + 2 * splits + 1) & (left > place) & (left + 1 < last);
            const bool is_category = (node & CATEGORICAL) != 0;
            const bool is_test = is_category ? of_column.categories > 0 : rank < of_column.ranks;
            const bool is_leaf = node == (place << LEFT_SHIFT | RANK_MASK);
            is_damaged |= is_split ? !(has_children & is_test) : !is_leaf;
            splits += is_split;
            if (is_split & is_category & is_test) check_set(place, of_column.categories);
        }
        expect(!is_damaged && 2 * splits + 1 == last - first,
               "a tree has a split without children, thresholds or a column of its own, or a leaf that leads on");
    }

    void check_set(std::uint64_t place, std::size_t categories) const {
        const std::int64_t start = nodes_.bits.empty() ? -1 : nodes_.bit_start[place];
        expect(start >= 0 && static_cast<std::uint64_t>(start) < nodes_.bits.size() &&
                   (categories - 1) / 32 < nodes_.bits.size() - static_cast<std::uint64_t>(start),
               "a split has no set of categories, or one that is too small");
    }

    // Give ids to the nodes that rows come to which pass the first splits of each tree.
    void number_leaves(FirstSplits& to) const {
        constexpr std::size_t most_splits = 255;
        to.is_narrow = ranks_fit_a_byte();
        std::vector<std::int32_t> id;
        for (std::size_t tree = 0; tree < n_trees(); ++tree) {
            const auto first = static_cast<std::size_t>(nodes_.tree_start[tree]),
                       last = static_cast<std::size_t>(nodes_.tree_start[tree + 1]);
            id.assign(last - first, -1);
            id[0] = 0;
            std::size_t n_splits = 0;
            bool is_passed = true;
            std::vector<std::uint32_t> place_of_id{static_cast<std::uint32_t>(first)};
            for (std::size_t place = first; place < last; ++place) {
                const std::int32_t own = id[place - first];
                if (own < 0) continue;
                place_of_id[static_cast<std::size_t>(own)] = static_cast<std::uint32_t>(place);
                const std::uint64_t node = nodes_.nodes[place], rank = node & RANK_MASK;
                if (rank == RANK_MASK) continue;
                if (n_splits == most_splits || (node & CATEGORICAL) || rank >= (to.is_narrow ? 0xFFu : 0xFFFFu)) {
                    is_passed = false;
                    continue;
                }
                const auto left = static_cast<std::size_t>(node >> LEFT_SHIFT) - first;
                ++n_splits;
                to.splits.push_back({static_cast<std::uint32_t>((node >> COLUMN_SHIFT) & COLUMN_MASK),
                                     static_cast<std::uint16_t>(rank), static_cast<std::uint8_t>(own),
                                     static_cast<std::uint8_t>(n_splits)});
                id[left] = own;
                id[left + 1] = static_cast<std::int32_t>(n_splits);
                place_of_id.push_back(0);
            }
            to.split_start.push_back(to.splits.size());
            to.is_passed.push_back(is_passed);
            add_ids(place_of_id, to);
        }
    }

    // Left empty where a rank, a column, or the way to a child takes more than a short node has room for.
    void shorten_nodes() {
        if (n_columns() > SHORT_ROW || has_categories()) return;
        std::vector<std::uint32_t> words(n_nodes());
        bool fits = true;
        for (std::size_t place = 0; place < n_nodes(); ++place) {
            const std::uint64_t node = nodes_.nodes[place], rank = node & RANK_MASK;
            const std::uint64_t way = (node >> LEFT_SHIFT) - place, column = (node >> COLUMN_SHIFT) & COLUMN_MASK;
            const bool is_split = rank != RANK_MASK;
            fits &= !is_split || ((rank < SHORT_RANK_MASK) & (way <= 0xFFFF));
            const auto word = static_cast<std::uint32_t>(way << SHORT_LEFT_SHIFT | column << SHORT_COLUMN_SHIFT |
                                                         (SHORT_RANK_MASK - rank));
            words[place] = is_split ? word : 0;
        }
        if (fits) short_nodes_ = std::move(words);
    }

    void add_ids(const std::vector<std::uint32_t>& places, FirstSplits& to) const {
        to.place_of_id.insert(to.place_of_id.end(), places.begin(), places.end());
        to.id_start.push_back(to.place_of_id.size());
        for (const std::size_t place : places) {
            for (std::size_t at = place * nodes_.width; at < (place + 1) * nodes_.width; ++at) {
                if (is_single())
                    to.of_id.floats.push_back(nodes_.floats[at]);
                else
                    to.of_id.doubles.push_back(nodes_.doubles[at]);
            }
            if (!nodes_.vote.empty()) to.of_id.vote.push_back(nodes_.vote[place]);
        }
    }

    // Whether hardly any rank exceeds a byte, going by the first nodes.
    bool ranks_fit_a_byte() const {
        const std::size_t looked_at = std::min<std::size_t>(n_nodes(), 1024);
        std::size_t beyond = 0;
        for (std::size_t place = 0; place < looked_at; ++place) {
            const std::uint64_t rank = nodes_.nodes[place] & RANK_MASK;
            beyond += rank >= 0xFF && rank < 0xFFFF;
        }
        return 20 * beyond <= looked_at;
    }
};

}  // namespace rfsize
