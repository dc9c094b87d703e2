// The few loops that are compiled once for each kind of processor, and the table through which they are called.
//
// They take raw pointers and use nothing of the standard library: an inline function of a header that is compiled for
// several processors would be merged by the linker, and an old processor would meet instructions that it does not know.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rfsize {

// A split that all rows of a block pass together. Rows carry the id of their node: the left child inherits its
// parent's, and the right child gets a new one, so that 255 splits fit a byte.
struct Split {
    std::uint32_t column;
    std::uint16_t rank;
    std::uint8_t id, right;
};

// Rows of a block are laid out by columns, of bytes or of words; ranks are stored less this, for signed comparisons are
// what all processors have.
inline constexpr int BYTE_BIAS = 0x80, WORD_BIAS = 0x8000;

// The most rows that go down trees together, and of what the rows of a column are a multiple, so that loops of vectors
// may end behind the last one.
inline constexpr std::size_t TOGETHER = 2048, PADDED_TO = 128;
inline constexpr std::size_t READ_BEYOND = 8;

// See descend_alone.
inline constexpr std::size_t OPEN_BEYOND = 16;

// Cuts that are compared with a value together.
inline constexpr std::size_t CUTS_AT_ONCE = 16;

// Ascending cuts by even parts of their range: start counts those before a part, and no part holds more than widest. A
// key's part is (key - lowest) * scale, in the first or the last where it is beyond them. Without parts, scale is 0.
struct Parts {
    double lowest, scale, last;
    const std::uint32_t* start;
    std::size_t widest;
};

// A column of numbers: whether NaN, or 0, is a missing value, the rank that such a value gets, and the least rank of
// another value among the cuts of its feature.
struct NumbersColumn {
    bool nan_is_missing, zero_is_missing;
    std::uint16_t of_missing;
    std::uint32_t lowest;
};

// What a column holds for a value of some rank. Without a branch, since many values are compared in a loop, and of each
// file its own, since it is compiled for several processors.
static inline std::uint16_t compared_with(const NumbersColumn& column, double value, std::uint32_t rank) {
    const bool is_missing = (column.nan_is_missing & (value != value)) | (column.zero_is_missing & (value == 0.0));
    const std::uint32_t above = rank <= column.lowest ? 0 : rank - column.lowest;
    return is_missing ? column.of_missing : static_cast<std::uint16_t>(above < 0xFFFF ? above : 0xFFFF);
}

// Node words; see rfsize/walking/layout.py.
inline constexpr unsigned LEFT_SHIFT = 36, COLUMN_SHIFT = 16;
inline constexpr std::uint64_t COLUMN_MASK = 0x7FFFF, CATEGORICAL = std::uint64_t{1} << 35, RANK_MASK = 0xFFFF;

// What walkers down the trees need to know of the nodes.
struct NodesView {
    const std::uint64_t* nodes;
    const std::int64_t* bit_start;  // null where no split is categorical
    const std::uint32_t* bits;
};

// The child of a node that a row goes to; of a leaf, the leaf itself. Of each file its own, as above.
template <bool CATEGORIES>
static inline std::uint32_t child_of(const NodesView& trees, std::uint32_t place, const std::uint16_t* row) {
    const std::uint64_t node = trees.nodes[place];
    const std::uint16_t value = row[(node >> COLUMN_SHIFT) & COLUMN_MASK];
    if (CATEGORIES && (node & CATEGORICAL)) {
        const std::uint32_t word = trees.bits[static_cast<std::uint64_t>(trees.bit_start[place]) + (value >> 5)];
        return static_cast<std::uint32_t>(node >> LEFT_SHIFT) + ((~word >> (value & 31)) & 1);
    }
    return static_cast<std::uint32_t>(node >> LEFT_SHIFT) + (value > (node & RANK_MASK));
}

struct Primitives {
    const char* level;
    // Values as a framework reads them; see `Reading`.
    void (*read)(double* value, std::size_t n, bool single_precision, double missing, double zero_within);
    // How many of the ascending cuts are below each key; behind the cuts come as many infinite ones as the
    // widest part holds, and CUTS_AT_ONCE.
    void (*rank)(const double* key, std::size_t n, const double* cuts, std::size_t n_cuts, const Parts& parts,
                 std::uint32_t* rank);
    void (*compare)(const double* value, const std::uint32_t* rank, std::size_t n, const NumbersColumn& column,
                    std::uint16_t* out);
    // Lay out by columns the rows of a matrix that are named; a column begins so many rows (stride) after another. Up
    // to READ_BEYOND numbers behind the matrix are read as well.
    void (*gather_bytes)(const std::uint16_t* q, std::size_t n_columns, const std::uint32_t* row, std::size_t n,
                         std::int8_t* out, std::size_t stride);
    void (*gather_words)(const std::uint16_t* q, std::size_t n_columns, const std::uint32_t* row, std::size_t n,
                         std::int16_t* out, std::size_t stride);
    // Take n rows past splits; at holds the id of each afterwards. Columns and at are aligned, and padded.
    void (*pass_bytes)(const Split* splits, std::size_t n_splits, const std::int8_t* columns, std::size_t stride,
                       std::size_t n, std::uint8_t* at);
    void (*pass_words)(const Split* splits, std::size_t n_splits, const std::int16_t* columns, std::size_t stride,
                       std::size_t n, std::uint16_t* at);
    // Add to the sums of n rows the values of the leaves whose ids they hold; ids are padded as above.
    void (*add_floats)(const float* value, std::size_t n_values, const std::uint8_t* id, std::size_t n, float* sum);
    void (*add_doubles)(const double* value, std::size_t n_values, const std::uint8_t* id, std::size_t n, double* sum);
    // Take n walkers some steps down, and then those on that have not reached a leaf.
    void (*descend)(const NodesView& trees, const std::uint16_t* q, std::size_t n_columns, const std::uint32_t* row,
                    std::uint32_t* place, std::uint32_t* open, std::size_t n, std::size_t steps);
    // The same of one row down several trees of short nodes; short_row is its bytes, and four more. Walkers are written
    // to open sixteen at a time, so that it has room for OPEN_BEYOND more than n.
    void (*descend_alone)(const std::uint32_t* short_nodes, const std::uint8_t* short_row, std::size_t n_columns,
                          std::uint32_t* place, std::uint32_t* open, std::size_t n, std::size_t steps);
};

// Those of each level, of which a processor without levels has the first.
extern const Primitives table_baseline, table_v3, table_v4;

// Those of this processor, or of the level that the environment names.
const Primitives& primitives();

// Where ranks and columns fit bytes, a single row goes down nodes of half the size: how far behind a split its left
// child follows, its column, and 255 less its rank. A row holds 255 less its own ranks, so that it goes right where its
// byte is below the node's: a comparison whose carry is added without a branch.
inline constexpr unsigned SHORT_LEFT_SHIFT = 16, SHORT_COLUMN_SHIFT = 8;
inline constexpr std::uint32_t SHORT_RANK_MASK = 0xFF;
inline constexpr std::size_t SHORT_ROW = 256;

}  // namespace rfsize
