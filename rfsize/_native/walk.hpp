// Rows down trees: many together past the first splits of a tree, or a few down several trees at once.
#pragma once

#include <array>

#include "forest.hpp"
#include "scratch.hpp"

namespace rfsize {

// Trees that a row goes down together, so that none waits for the memory of another.
inline constexpr std::size_t AT_ONCE = 512;

// Takes one row down several trees at once.
class RowAlone {
public:
    RowAlone(const Forest& forest, std::size_t most)
        : forest_(forest), row_(forest.has_short_nodes() ? 0 : most), place_(most), open_(most + OPEN_BEYOND) {
        std::fill_n(row_.begin(), row_.size(), 0);
    }

    void take(const std::uint16_t* q) {
        q_ = q;
        if (!forest_.has_short_nodes()) return;
        for (std::size_t column = 0; column < forest_.n_columns(); ++column)
            short_row_[column] = static_cast<std::uint8_t>(SHORT_RANK_MASK - std::min<std::uint32_t>(q[column], 0xFF));
    }

    // The leaves that the row reaches in n trees from the first on; the next call overwrites them.
    const std::uint32_t* reach(std::size_t first, std::size_t n) {
        for (std::size_t j = 0; j < n; ++j)
            place_[j] = static_cast<std::uint32_t>(forest_.nodes().tree_start[first + j]);
        const std::size_t steps = forest_.balanced_depth(first);
        if (forest_.has_short_nodes())
            primitives().descend_alone(forest_.short_nodes(), short_row_.data(), forest_.n_columns(), place_.data(),
                                       open_.data(), n, steps);
        else
            primitives().descend(forest_.view(), q_, forest_.n_columns(), row_.data(), place_.data(), open_.data(), n,
                                 steps);
        return place_.data();
    }

private:
    const Forest& forest_;
    const std::uint16_t* q_ = nullptr;
    std::array<std::uint8_t, SHORT_ROW + 4> short_row_{};  // four bytes are read at a time
    Temporary<std::uint32_t> row_, place_, open_;
};

// Rows that go down trees together, up to TOGETHER of them.
class RowsTogether {
public:
    RowsTogether(const Forest& forest, const std::uint16_t* q, std::size_t most)
        : forest_(forest),
          q_(q),
          stride_((most + PADDED_TO - 1) / PADDED_TO * PADDED_TO + APART),
          bytes_(most >= FEWEST && forest.is_narrow() ? forest.n_columns() * stride_ : 0),
          words_(most >= FEWEST && !forest.is_narrow() ? forest.n_columns() * stride_ : 0),
          byte_(stride_),
          word_(stride_),
          row_(most),
          place_(most),
          open_(most) {
        std::fill_n(bytes_.begin(), bytes_.size(), 0);  // what lies behind the rows is compared as well
        std::fill_n(words_.begin(), words_.size(), 0);
    }

    // Take these rows, no more than there is room for.
    void take(std::span<const std::uint32_t> rows) {
        std::copy(rows.begin(), rows.end(), row_.begin());
        gather(rows.size());
    }

    // Keep these of the rows alone, in ascending order of where they are.
    void keep(std::span<const std::uint32_t> kept) {
        for (std::size_t j = 0; j < kept.size(); ++j) row_[j] = row_[kept[j]];
        gather(kept.size());  // which is faster than to move them in each column
    }

    // Call done(leaves) with the leaves that the rows reach in a tree, as LeafIds or as LeafPlaces.
    template <class Done>
    void reach(std::size_t tree, Done&& done) {
        const auto root = static_cast<std::uint32_t>(forest_.nodes().tree_start[tree]);
        if (n_ < FEWEST) {
            std::fill_n(place_.begin(), n_, root);
            descend(forest_.balanced_depth(tree));
            done(LeafPlaces{place_.data()});
            return;
        }
        const std::span<const Split> all = forest_.splits(tree);
        const std::span<const Split> splits = all.first(std::min(all.size(), n_ / ROWS_PER_SPLIT));
        const bool is_whole = splits.size() == all.size();
        if (forest_.is_narrow()) {
            primitives().pass_bytes(splits.data(), splits.size(), bytes_.data(), stride_, n_, byte_.data());
            if (is_whole && forest_.is_passed(tree)) {
                done(forest_.leaves(tree, byte_.data()));
                return;
            }
            to_places(tree, splits, is_whole, byte_.data());
        } else {
            primitives().pass_words(splits.data(), splits.size(), words_.data(), stride_, n_, word_.data());
            to_places(tree, splits, is_whole, word_.data());
        }
        if (!is_whole || !forest_.is_passed(tree)) descend(0);
        done(LeafPlaces{place_.data()});
    }

private:
    // Fewer rows walk all the way.
    static constexpr std::size_t FEWEST = 64;
    // Columns a power of two apart would share few places of the fastest cache.
    static constexpr std::size_t APART = 64;
    // Rows that a split must be put to at least, to make up for the time that it takes to prepare it.
    static constexpr std::size_t ROWS_PER_SPLIT = 4;

    const Forest& forest_;
    const std::uint16_t* q_;
    std::size_t n_ = 0, stride_;  // rows between two columns
    Temporary<std::int8_t> bytes_;
    Temporary<std::int16_t> words_;
    Temporary<std::uint8_t> byte_;
    Temporary<std::uint16_t> word_;
    Temporary<std::uint32_t> row_, place_, open_;

    void gather(std::size_t n) {
        n_ = n;
        if (n_ < FEWEST) return;
        if (forest_.is_narrow())
            primitives().gather_bytes(q_, forest_.n_columns(), row_.data(), n_, bytes_.data(), stride_);
        else
            primitives().gather_words(q_, forest_.n_columns(), row_.data(), n_, words_.data(), stride_);
    }

    // Nodes from ids; of the first splits alone, ids stand for other nodes than at the end of all.
    template <class Id>
    void to_places(std::size_t tree, std::span<const Split> splits, bool is_whole, const Id* id) {
        std::array<std::uint32_t, 256> place;
        const auto whole = forest_.place_of_id(tree);
        if (is_whole) {
            std::copy(whole.begin(), whole.end(), place.begin());
        } else {
            place[0] = static_cast<std::uint32_t>(forest_.nodes().tree_start[tree]);
            for (const Split& split : splits) {
                const auto left = static_cast<std::uint32_t>(forest_.nodes().nodes[place[split.id]] >> LEFT_SHIFT);
                place[split.id] = left;
                place[split.right] = left + 1;
            }
        }
        for (std::size_t j = 0; j < n_; ++j) place_[j] = place[id[j]];
    }

    void descend(std::size_t steps) {
        primitives().descend(forest_.view(), q_, forest_.n_columns(), row_.data(), place_.data(), open_.data(), n_,
                             steps);
    }
};

}  // namespace rfsize
