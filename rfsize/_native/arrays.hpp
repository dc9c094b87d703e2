// Views of arrays that somebody else owns.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

namespace rfsize {

// A matrix whose rows lie one after another.
template <class T>
struct Matrix {
    T* data;
    std::size_t rows, columns;

    std::span<T> operator[](std::size_t row) const { return {data + row * columns, columns}; }
};

// Matrices of one shape, one after another.
template <class T>
struct Cube {
    T* data;
    std::size_t matrices, rows, columns;

    Matrix<T> operator[](std::size_t matrix) const { return {data + matrix * rows * columns, rows, columns}; }
};

// A matrix of any layout; strides are in bytes, as NumPy has them.
template <class T>
struct Strided {
    const char* data;
    std::size_t rows, columns;
    std::ptrdiff_t row_stride, column_stride;

    T at(std::size_t row, std::size_t column) const {
        const auto offset =
            static_cast<std::ptrdiff_t>(row) * row_stride + static_cast<std::ptrdiff_t>(column) * column_stride;
        T value;  // which need not lie where the processor's numbers begin
        std::memcpy(&value, data + offset, sizeof value);
        return value;
    }
    // n numbers of a column, from a row on. Those of the next n rows are sent for meanwhile.
    void read(std::size_t first, std::size_t n, std::size_t column, double* out) const {
        const char* next = data + static_cast<std::ptrdiff_t>(first + n) * row_stride +
                           static_cast<std::ptrdiff_t>(column) * column_stride;
        for (std::size_t i = 0; i < n; ++i, next += row_stride) {
            out[i] = static_cast<double>(at(first + i, column));
            __builtin_prefetch(next);
        }
    }
};

// Columns that lie anywhere, each of one type that double precision holds exactly.
struct Table {
    using Read = std::function<void(std::size_t first, std::size_t n, double* out)>;

    std::size_t rows;
    std::vector<Read> columns;

    void read(std::size_t first, std::size_t n, std::size_t column, double* out) const {
        columns[column](first, n, out);
    }
};

}  // namespace rfsize
