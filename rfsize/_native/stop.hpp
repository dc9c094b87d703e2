// What rules of stopping have in common. Whether a row may stop is decided in the rule's own file, stop_*.hpp. A rule
// is a class that one loop (predict.hpp) calls:
//
//     enter(rows), leave(n)       take the state of some rows from where the caller keeps it, and put it back
//     add(member, output, ...)    add what the leaves of one tree say of the n rows
//     looks(n_used)               whether any row may stop after so many members
//     settle(n_used, n)           settle the rows that so many members are enough for, and count them
//     keep(kept)                  go on with these of the rows alone
//
// State lies by columns, a class or a score each, so that loops over rows become vector code.
#pragma once

#include "walk.hpp"

namespace rfsize {

// Trees of the first stage, and how many times as many there are by the end of the next.
inline constexpr std::size_t FIRST_STAGE = 4, STAGES_GROW = 4;

// Where answers go: the label of each row, negative before, and how many members predicted it.
struct Answers {
    std::int64_t *label, *n_used;
};

// What all rules know of the rows that are going.
class Going {
public:
    static constexpr bool stops = false;

    explicit Going(std::size_t most) : rows_(most), settled_(most) {}

    std::size_t first_stage() const { return std::numeric_limits<std::size_t>::max(); }
    void enter(std::span<const std::uint32_t> rows) {
        std::copy(rows.begin(), rows.end(), rows_.begin());
        std::fill_n(settled_.begin(), rows.size(), std::uint8_t{0});
    }
    void keep(std::span<const std::uint32_t> kept) {
        for (std::size_t j = 0; j < kept.size(); ++j) {
            rows_[j] = rows_[kept[j]];
            settled_[j] = 0;
        }
    }
    void leave(std::size_t) {}
    bool looks(std::size_t) const { return false; }
    std::size_t settle(std::size_t, std::size_t) { return 0; }
    bool is_settled(std::size_t j) const { return settled_[j] != 0; }

protected:
    Temporary<std::uint32_t> rows_;
    Temporary<std::uint8_t> settled_;

    void answer(std::size_t j, std::int64_t label, std::size_t n_used, const Answers& answers) {
        settled_[j] = 1;
        answers.label[rows_[j]] = label;
        answers.n_used[rows_[j]] = static_cast<std::int64_t>(n_used);
    }
};

// Numbers of rows by columns.
template <class T>
class ByColumns {
public:
    ByColumns(std::size_t columns, std::size_t most) : columns_(columns), most_(most), data_(columns * most) {}

    T* operator[](std::size_t column) { return data_.data() + column * most_; }

    void enter(const Matrix<T>& from, std::span<const std::uint32_t> rows) {
        for (std::size_t column = 0; column < columns_; ++column)
            for (std::size_t j = 0; j < rows.size(); ++j)
                (*this)[column][j] = from.data[rows[j] * from.columns + column];
    }
    void leave(const Matrix<T>& to, const Temporary<std::uint32_t>& rows, std::size_t n) {
        for (std::size_t column = 0; column < columns_; ++column)
            for (std::size_t j = 0; j < n; ++j) to.data[rows[j] * to.columns + column] = (*this)[column][j];
    }
    void keep(std::span<const std::uint32_t> kept) {
        for (std::size_t column = 0; column < columns_; ++column)
            for (std::size_t j = 0; j < kept.size(); ++j) (*this)[column][j] = (*this)[column][kept[j]];
    }

private:
    std::size_t columns_, most_;
    Temporary<T> data_;
};

// Add the values of the leaves that rows reach to their sums.
template <class Real, class Leaves>
void add_values(const Forest& forest, std::size_t output, const Leaves& leaves, std::size_t n, ByColumns<Real>& sums) {
    const Real* value = forest.values<Real>(leaves);
    const std::size_t width = forest.nodes().width;
    if constexpr (std::is_same_v<Leaves, LeafIds>)
        if (width == 1) {
            if constexpr (std::is_same_v<Real, float>)
                primitives().add_floats(value, leaves.n, leaves.at, n, sums[output]);
            else
                primitives().add_doubles(value, leaves.n, leaves.at, n, sums[output]);
            return;
        }
    // Either several trees make up a member, or a leaf has several scores.
    for (std::size_t part = 0; part < width; ++part) {
        Real* sum = sums[output + part];
        for (std::size_t j = 0; j < n; ++j) sum[j] += value[leaves.at[j] * width + part];
    }
}

// Write down the index of every leaf. Rows lie far apart in the matrix, so several trees' indices are written at once.
class EveryLeaf : public Going {
public:
    EveryLeaf(const Forest& forest, std::span<const std::int64_t> index, Matrix<std::int64_t> leaf, std::size_t most)
        : Going(most), forest_(forest), index_(index), leaf_(leaf), held_(TREES_AT_ONCE, most) {}

    template <class Leaves>
    void add(std::size_t member, std::size_t output, const Leaves& leaves, std::size_t n) {
        const std::size_t tree = member * forest_.n_outputs() + output;
        std::int64_t* held = held_[tree % TREES_AT_ONCE];
        const std::int64_t* index = index_.data();
        std::array<std::int64_t, 256> of_id;
        if constexpr (std::is_same_v<Leaves, LeafIds>) {
            const auto place = forest_.place_of_id(tree);
            for (std::size_t id = 0; id < place.size(); ++id) of_id[id] = index_[place[id]];
            index = of_id.data();
        }
        for (std::size_t j = 0; j < n; ++j) held[j] = index[leaves.at[j]];
        write(tree, n);
    }

private:
    static constexpr std::size_t TREES_AT_ONCE = 8;  // their indices fill a line of the cache

    const Forest& forest_;
    std::span<const std::int64_t> index_;
    Matrix<std::int64_t> leaf_;
    ByColumns<std::int64_t> held_;

    // Write what is held, if no more fits or this is the last tree.
    void write(std::size_t tree, std::size_t n) {
        const std::size_t first = tree / TREES_AT_ONCE * TREES_AT_ONCE, trees = tree - first + 1;
        if (trees < TREES_AT_ONCE && tree + 1 < leaf_.columns) return;
        for (std::size_t j = 0; j < n; ++j)
            for (std::size_t held = 0; held < trees; ++held) leaf_[rows_[j]][first + held] = held_[held][j];
    }
};

}  // namespace rfsize
