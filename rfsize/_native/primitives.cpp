// Compiled once for each level of processors, with RFSIZE_LEVEL for its name; see primitives.hpp.
#include "primitives.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512BW__)
#define RFSIZE_VECTOR 64
#elif defined(__AVX2__)
#define RFSIZE_VECTOR 32
#else
#define RFSIZE_VECTOR 16
#endif
#define RFSIZE_NAME_OF(level) #level
#define RFSIZE_NAME(level) RFSIZE_NAME_OF(level)
#define RFSIZE_TABLE_OF(level) table_##level
#define RFSIZE_TABLE(level) RFSIZE_TABLE_OF(level)

namespace rfsize {

namespace {

constexpr std::size_t VECTOR = RFSIZE_VECTOR;

using Bytes [[gnu::vector_size(RFSIZE_VECTOR), gnu::may_alias]] = std::int8_t;
using Words [[gnu::vector_size(RFSIZE_VECTOR), gnu::may_alias]] = std::int16_t;

// How many of N cuts are below a key, where N is 4 or CUTS_AT_ONCE.
template <unsigned N>
std::uint32_t below(const double* cuts, double key) {
#if defined(__AVX2__)
    unsigned mask = 0, i = 0;
#if defined(__AVX512F__)
    for (; i + 8 <= N; i += 8)
        mask |= static_cast<unsigned>(_mm512_cmp_pd_mask(_mm512_loadu_pd(cuts + i), _mm512_set1_pd(key), _CMP_LT_OQ))
                << i;
#endif
    const __m256d all = _mm256_set1_pd(key);
    for (; i < N; i += 4)
        mask |= static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(cuts + i), all, _CMP_LT_OQ)))
                << i;
    return static_cast<std::uint32_t>(__builtin_popcount(mask));
#else
    std::uint32_t n_below = 0;
    for (std::uint32_t size = N / 2; size > 0; size /= 2) n_below += cuts[n_below + size - 1] < key ? size : 0;
    return n_below + (cuts[n_below] < key);
#endif
}

void rank(const double* key, std::size_t n, const double* cuts, std::size_t n_cuts, const Parts& parts,
          std::uint32_t* rank) {
    std::size_t size = n_cuts;
    if (parts.scale > 0.0) {
        size = parts.widest;
        for (std::size_t i = 0; i < n; ++i) {
            double part = (key[i] - parts.lowest) * parts.scale;
            part = part > 0.0 ? part : 0.0;
            part = part < parts.last ? part : parts.last;
            rank[i] = static_cast<std::uint32_t>(static_cast<std::int32_t>(part));
        }
        // In a loop of its own, so that the one above becomes vector code.
        for (std::size_t i = 0; i < n; ++i) rank[i] = parts.start[rank[i]];
    } else {
        for (std::size_t i = 0; i < n; ++i) rank[i] = 0;
    }
    // All values take each step of the bisection together, so that none waits for its comparison to be decided.
    while (size > CUTS_AT_ONCE) {
        const auto half = static_cast<std::uint32_t>(size >> 1);
        for (std::size_t i = 0; i < n; ++i) rank[i] += cuts[rank[i] + half - 1] < key[i] ? half : 0;
        size -= half;
    }
    // Cuts behind those in question are not below the key. They are mostly few, and to fetch more takes longer.
    if (size <= 4)
        for (std::size_t i = 0; i < n; ++i) rank[i] += below<4>(cuts + rank[i], key[i]);
    else
        for (std::size_t i = 0; i < n; ++i) rank[i] += below<CUTS_AT_ONCE>(cuts + rank[i], key[i]);
}

void compare(const double* value, const std::uint32_t* rank, std::size_t n, const NumbersColumn& column,
             std::uint16_t* out) {
    const NumbersColumn of = column;  // which the loop need not fetch anew
    for (std::size_t i = 0; i < n; ++i) out[i] = compared_with(of, value[i], rank[i]);
}

void read(double* value, std::size_t n, bool single_precision, double missing, double zero_within) {
    const double nothing = __builtin_nan("");
    for (std::size_t i = 0; i < n; ++i) {
        double number = single_precision ? static_cast<double>(static_cast<float>(value[i])) : value[i];
        number = number == missing ? nothing : number;
        value[i] = __builtin_fabs(number) <= zero_within ? 0.0 : number;
    }
}

// Up to eight columns of eight rows, as bytes by columns.
void transpose(const std::uint16_t* const* row, std::size_t n_columns, std::int8_t* out, std::size_t stride) {
#if defined(__SSE2__)
    __m128i pair[4];
    for (std::size_t i = 0; i < 4; ++i) {
        __m128i two[2];
        for (std::size_t k = 0; k < 2; ++k) {
            const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[2 * i + k]));
            two[k] = _mm_sub_epi16(words, _mm_subs_epu16(words, _mm_set1_epi16(0xFF)));  // at most 0xFF
        }
        pair[i] = _mm_xor_si128(_mm_packus_epi16(two[0], two[1]), _mm_set1_epi8(static_cast<char>(BYTE_BIAS)));
    }
    const __m128i even_0 = _mm_unpacklo_epi8(pair[0], pair[2]), odd_0 = _mm_unpackhi_epi8(pair[0], pair[2]);
    const __m128i even_2 = _mm_unpacklo_epi8(pair[1], pair[3]), odd_2 = _mm_unpackhi_epi8(pair[1], pair[3]);
    const __m128i even[2] = {_mm_unpacklo_epi8(even_0, even_2), _mm_unpackhi_epi8(even_0, even_2)};
    const __m128i odd[2] = {_mm_unpacklo_epi8(odd_0, odd_2), _mm_unpackhi_epi8(odd_0, odd_2)};
    std::uint64_t column[8];
    for (std::size_t i = 0; i < 2; ++i) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(column + 4 * i), _mm_unpacklo_epi8(even[i], odd[i]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(column + 4 * i + 2), _mm_unpackhi_epi8(even[i], odd[i]));
    }
    for (std::size_t k = 0; k < n_columns; ++k) __builtin_memcpy(out + k * stride, column + k, sizeof *column);
#else
    for (std::size_t k = 0; k < n_columns; ++k)
        for (std::size_t i = 0; i < 8; ++i)
            out[k * stride + i] = static_cast<std::int8_t>((row[i][k] > 0xFF ? 0xFF : row[i][k]) - BYTE_BIAS);
#endif
}

void gather_bytes(const std::uint16_t* q, std::size_t n_columns, const std::uint32_t* row, std::size_t n,
                  std::int8_t* out, std::size_t stride) {
    for (std::size_t j = 0; j < n; j += 8) {
        const std::uint16_t* from[8];
        for (std::size_t i = 0; i < 8; ++i) from[i] = q + row[j + i < n ? j + i : n - 1] * n_columns;
        for (std::size_t column = 0; column < n_columns; column += 8) {
            transpose(from, n_columns - column < 8 ? n_columns - column : 8, out + column * stride + j, stride);
            for (const std::uint16_t*& of_row : from) of_row += 8;
        }
    }
}

void gather_words(const std::uint16_t* q, std::size_t n_columns, const std::uint32_t* row, std::size_t n,
                  std::int16_t* out, std::size_t stride) {
    for (std::size_t j = 0; j < n; ++j) {
        const std::uint16_t* from = q + row[j] * n_columns;
        for (std::size_t column = 0; column < n_columns; ++column)
            out[column * stride + j] = static_cast<std::int16_t>(from[column] - WORD_BIAS);
    }
}

// The ids of N vectors of rows stay in registers through all splits of a tree.
template <class Vector, class Number, int BIAS, int N, class Id>
void pass_vectors(const Split* splits, std::size_t n_splits, const Number* columns, std::size_t stride, Id* at) {
    Vector here[N] = {};
    for (std::size_t s = 0; s < n_splits; ++s) {
        const auto* column = reinterpret_cast<const Vector*>(columns + splits[s].column * stride);
        const Vector rank = Vector{} + static_cast<Number>(splits[s].rank - BIAS);
        const Vector id = Vector{} + static_cast<Number>(splits[s].id);
        Vector right = Vector{} + static_cast<Number>(splits[s].right);
#if defined(__AVX512BW__)
        // In a register: GCC would fetch it from memory for each vector anew, which takes a quarter longer.
        __asm__("" : "+x"(right));
#endif
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) {
            const Vector goes_right = (here[i] == id) & (column[i] > rank);
            here[i] ^= (here[i] ^ right) & goes_right;
        }
    }
    for (int i = 0; i < N; ++i) reinterpret_cast<Vector*>(at)[i] = here[i];
}

template <class Vector, int BIAS, class Number, class Id>
void pass(const Split* splits, std::size_t n_splits, const Number* columns, std::size_t stride, std::size_t n, Id* at) {
    constexpr std::size_t lanes = VECTOR / sizeof(Number);
    std::size_t first = 0;
#if defined(__AVX512BW__)
    // There are registers for so many, and a vector waits for its comparisons longer than eight take.
    for (; first + 14 * lanes < n; first += 16 * lanes)
        pass_vectors<Vector, Number, BIAS, 16>(splits, n_splits, columns + first, stride, at + first);
#endif
    for (; first + 6 * lanes < n; first += 8 * lanes)
        pass_vectors<Vector, Number, BIAS, 8>(splits, n_splits, columns + first, stride, at + first);
    for (; first + 2 * lanes < n; first += 4 * lanes)
        pass_vectors<Vector, Number, BIAS, 4>(splits, n_splits, columns + first, stride, at + first);
    for (; first < n; first += 2 * lanes)
        pass_vectors<Vector, Number, BIAS, 2>(splits, n_splits, columns + first, stride, at + first);
}

// Walkers of rows that are named, down any trees.
template <bool CATEGORIES>
struct Down {
    const NodesView& trees;
    const std::uint16_t* q;
    std::size_t n_columns;
    const std::uint32_t* row;

    std::uint32_t step(std::size_t walker, std::uint32_t place) const {
        return child_of<CATEGORIES>(trees, place, q + row[walker] * n_columns);
    }
    bool is_open(std::uint32_t place) const { return (trees.nodes[place] & RANK_MASK) != RANK_MASK; }
};

struct DownShort {
    const std::uint32_t* nodes;
    const std::uint8_t* row;

    std::uint32_t step(std::size_t, std::uint32_t place) const {
        const std::uint32_t node = nodes[place];
        place += node >> SHORT_LEFT_SHIFT;
        place += row[(node >> SHORT_COLUMN_SHIFT) & 0xFF] < static_cast<std::uint8_t>(node);
        return place;
    }
    bool is_open(std::uint32_t place) const { return nodes[place] >> SHORT_LEFT_SHIFT != 0; }
};

template <class Way>
void go_down(const Way& way, std::uint32_t* place, std::uint32_t* open, std::size_t n, std::size_t steps) {
    // All take each step together, so that none waits for the memory of another.
    for (std::size_t step = 0; step < steps; ++step)
#pragma GCC unroll 4
        for (std::size_t j = 0; j < n; ++j) place[j] = way.step(j, place[j]);
    std::size_t still = 0;
    for (std::size_t j = 0; j < n; ++j) {
        open[still] = static_cast<std::uint32_t>(j);
        still += way.is_open(place[j]);
    }
    while (still > 0) {
        const std::size_t going = still;
        still = 0;
        for (std::size_t k = 0; k < going; ++k) {
            const std::uint32_t j = open[k];
            // Two steps at once: to look after each which rows have reached a leaf costs more.
            const std::uint32_t twice = way.step(j, way.step(j, place[j]));
            place[j] = twice;
            open[still] = j;
            still += way.is_open(twice);
        }
    }
}

void descend(const NodesView& trees, const std::uint16_t* q, std::size_t n_columns, const std::uint32_t* row,
             std::uint32_t* place, std::uint32_t* open, std::size_t n, std::size_t steps) {
    if (trees.bit_start != nullptr)
        go_down(Down<true>{trees, q, n_columns, row}, place, open, n, steps);
    else
        go_down(Down<false>{trees, q, n_columns, row}, place, open, n, steps);
}

#if defined(__AVX512BW__)
// Sixteen walkers down trees of short nodes. Up to 64 of the row's bytes are held in registers, as words.
template <bool IN_REGISTERS>
struct SixteenDown {
    const std::uint32_t* nodes;
    const std::uint8_t* row;
    __m512i low, high;

    SixteenDown(const std::uint32_t* short_nodes, const std::uint8_t* short_row) : nodes(short_nodes), row(short_row) {
        const auto* bytes = reinterpret_cast<const __m256i*>(row);
        low = _mm512_cvtepu8_epi16(_mm256_loadu_si256(bytes));
        high = _mm512_cvtepu8_epi16(_mm256_loadu_si256(bytes + 1));
    }

    __m512i step(__m512i place) const {
        const __m512i byte = _mm512_set1_epi32(0xFF);
        const __m512i node = _mm512_i32gather_epi32(place, nodes, 4);
        const __m512i column = _mm512_and_si512(_mm512_srli_epi32(node, SHORT_COLUMN_SHIFT), byte);
        const __m512i value =
            IN_REGISTERS ? _mm512_permutex2var_epi16(low, column, high) : _mm512_i32gather_epi32(column, row, 1);
        const __mmask16 right = _mm512_cmplt_epu32_mask(_mm512_and_si512(value, byte), _mm512_and_si512(node, byte));
        const __m512i next = _mm512_add_epi32(place, _mm512_srli_epi32(node, SHORT_LEFT_SHIFT));
        return _mm512_mask_add_epi32(next, right, next, _mm512_set1_epi32(1));
    }
    // Those that have not reached a leaf.
    __mmask16 open(__m512i place) const {
        return _mm512_cmpge_epu32_mask(_mm512_i32gather_epi32(place, nodes, 4),
                                       _mm512_set1_epi32(1 << SHORT_LEFT_SHIFT));
    }
};

// Several times sixteen walkers, which go on together, so that none waits for the memory of another.
template <int GROUPS, bool IN_REGISTERS>
struct Groups {
    const SixteenDown<IN_REGISTERS>& down;
    __m512i here[GROUPS], walker[GROUPS];
    __mmask16 there[GROUPS];

    // Lanes that stand for walkers, of so many that are left.
    static __mmask16 lanes(std::size_t left, int g) {
        const std::size_t before = 16 * static_cast<std::size_t>(g);
        return left >= before + 16 ? 0xFFFF : left <= before ? 0 : static_cast<__mmask16>((1u << (left - before)) - 1);
    }

    // Take the walkers from the first on, which stand where place says.
    Groups(const SixteenDown<IN_REGISTERS>& sixteen, const std::uint32_t* place, std::size_t first, std::size_t left)
        : down(sixteen) {
        const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        for (int g = 0; g < GROUPS; ++g) {
            const auto at = static_cast<int>(first) + 16 * g;
            there[g] = lanes(left, g);
            walker[g] = _mm512_add_epi32(lane, _mm512_set1_epi32(at));
            here[g] = _mm512_maskz_loadu_epi32(there[g], place + at);
        }
    }
    // Take the walkers that are named.
    Groups(const SixteenDown<IN_REGISTERS>& sixteen, const std::uint32_t* place, const std::uint32_t* named,
           std::size_t left)
        : down(sixteen) {
        for (int g = 0; g < GROUPS; ++g) {
            there[g] = lanes(left, g);
            walker[g] = _mm512_maskz_loadu_epi32(there[g], named + 16 * static_cast<std::size_t>(g));
            here[g] = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), there[g], walker[g], place, 4);
        }
    }
    // Go some steps, and write down where walkers are, and which of them are to go on; returns how many.
    std::size_t go(std::size_t steps, std::uint32_t* place, std::uint32_t* open) {
        for (std::size_t step = 0; step < steps; ++step)
            for (int g = 0; g < GROUPS; ++g) here[g] = down.step(here[g]);
        std::size_t still = 0;
        for (int g = 0; g < GROUPS; ++g) {
            _mm512_mask_i32scatter_epi32(place, there[g], walker[g], here[g], 4);
            const auto on = static_cast<__mmask16>(down.open(here[g]) & there[g]);
            _mm512_storeu_epi32(open + still, _mm512_maskz_compress_epi32(on, walker[g]));
            still += static_cast<std::size_t>(__builtin_popcount(on));
        }
        return still;
    }
};

// from: the first of the walkers, or their names. Those that go on are written over names that are read.
template <bool IN_REGISTERS, class From>
std::size_t go_by_groups(const SixteenDown<IN_REGISTERS>& down, From from, std::size_t n, std::size_t steps,
                         std::uint32_t* place, std::uint32_t* open) {
    std::size_t still = 0, done = 0;
    for (; done < n && n - done > 32; done += 64)
        still += Groups<4, IN_REGISTERS>(down, place, from + done, n - done).go(steps, place, open + still);
    if (done < n && n - done > 16)
        still += Groups<2, IN_REGISTERS>(down, place, from + done, n - done).go(steps, place, open + still);
    else if (done < n)
        still += Groups<1, IN_REGISTERS>(down, place, from + done, n - done).go(steps, place, open + still);
    return still;
}

template <bool IN_REGISTERS>
void descend_by_sixteen(const SixteenDown<IN_REGISTERS>& down, std::uint32_t* place, std::uint32_t* open, std::size_t n,
                        std::size_t steps) {
    std::size_t still = go_by_groups(down, std::size_t{0}, n, steps, place, open);
    while (still > 0) still = go_by_groups(down, static_cast<const std::uint32_t*>(open), still, 2, place, open);
}
#endif

void descend_alone(const std::uint32_t* short_nodes, const std::uint8_t* short_row, std::size_t n_columns,
                   std::uint32_t* place, std::uint32_t* open, std::size_t n, std::size_t steps) {
#if defined(__AVX512BW__)
    if (n_columns <= 64)
        descend_by_sixteen(SixteenDown<true>(short_nodes, short_row), place, open, n, steps);
    else
        descend_by_sixteen(SixteenDown<false>(short_nodes, short_row), place, open, n, steps);
#else
    static_cast<void>(n_columns);
    go_down(DownShort{short_nodes, short_row}, place, open, n, steps);
#endif
}

#if defined(__AVX512BW__)
// The values of a tree's leaves in registers, from which lanes take theirs by ids.
template <class Real>
struct Lanes;
template <>
struct Lanes<double> {
    using Vector = __m512d;
    static constexpr std::size_t LANES = 8;
    static Vector load(const double* from, __mmask8 lanes) { return _mm512_maskz_loadu_pd(lanes, from); }
    static void add(double* to, __mmask8 lanes, Vector values) {
        _mm512_mask_storeu_pd(to, lanes, _mm512_add_pd(load(to, lanes), values));
    }
    static __m512i ids(const std::uint8_t* id) { return _mm512_cvtepu8_epi64(_mm_loadu_si64(id)); }
    static Vector of_two(const Vector* value, __m512i at) { return _mm512_permutex2var_pd(value[0], at, value[1]); }
    static Vector higher(__m512i at, std::size_t bit, Vector low, Vector high) {
        return _mm512_mask_blend_pd(_mm512_test_epi64_mask(at, _mm512_set1_epi64(bit)), low, high);
    }
};
template <>
struct Lanes<float> {
    using Vector = __m512;
    static constexpr std::size_t LANES = 16;
    static Vector load(const float* from, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, from); }
    static void add(float* to, __mmask16 lanes, Vector values) {
        _mm512_mask_storeu_ps(to, lanes, _mm512_add_ps(load(to, lanes), values));
    }
    static __m512i ids(const std::uint8_t* id) { return _mm512_cvtepu8_epi32(_mm_loadu_epi8(id)); }
    static Vector of_two(const Vector* value, __m512i at) { return _mm512_permutex2var_ps(value[0], at, value[1]); }
    static Vector higher(__m512i at, std::size_t bit, Vector low, Vector high) {
        return _mm512_mask_blend_ps(_mm512_test_epi32_mask(at, _mm512_set1_epi32(static_cast<int>(bit))), low, high);
    }
};

// What lanes take from N registers, a power of two.
template <class Of, std::size_t N>
typename Of::Vector taken(const typename Of::Vector* value, __m512i at) {
    if constexpr (N == 2)
        return Of::of_two(value, at);
    else
        return Of::higher(at, N / 2 * Of::LANES, taken<Of, N / 2>(value, at), taken<Of, N / 2>(value + N / 2, at));
}

template <std::size_t N, class Real>
bool add_from_registers(const Real* value, std::size_t n_values, const std::uint8_t* id, std::size_t n, Real* sum) {
    using Of = Lanes<Real>;
    if (n_values > N * Of::LANES) return false;
    const auto lanes = [](std::size_t left) {
        return left >= Of::LANES ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
    };
    typename Of::Vector values[N];
    for (std::size_t i = 0; i < N; ++i)
        values[i] = Of::load(value + i * Of::LANES, lanes(n_values > i * Of::LANES ? n_values - i * Of::LANES : 0));
    for (std::size_t j = 0; j < n; j += Of::LANES)
        Of::add(sum + j, lanes(n - j), taken<Of, N>(values, Of::ids(id + j)));
    return true;
}
#endif

template <class Real>
void add(const Real* value, std::size_t n_values, const std::uint8_t* id, std::size_t n, Real* sum) {
#if defined(__AVX512BW__)
    if (add_from_registers<4>(value, n_values, id, n, sum) || add_from_registers<8>(value, n_values, id, n, sum))
        return;
#endif
    static_cast<void>(n_values);
    for (std::size_t j = 0; j < n; ++j) sum[j] += value[id[j]];
}

}  // namespace

const Primitives RFSIZE_TABLE(RFSIZE_LEVEL) = {
    RFSIZE_NAME(RFSIZE_LEVEL), read,       rank,        compare, gather_bytes, gather_words, pass<Bytes, BYTE_BIAS>,
    pass<Words, WORD_BIAS>,    add<float>, add<double>, descend, descend_alone};

}  // namespace rfsize
