// Views of arrays that somebody else owns.
#pragma once

#include <cstddef>
#include <cstring>
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
    // n numbers of a column, from a row on.
    void read(std::size_t first, std::size_t n, std::size_t column, double* out) const {
        for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<double>(at(first + i, column));
    }
};

// Columns that lie anywhere, each of one type that double precision holds exactly.
class Table {
public:
    explicit Table(std::size_t n_rows) : rows(n_rows) {}

    template <class T>
    void add(const char* data, std::ptrdiff_t stride) {
        columns_.push_back({data, stride, &read_as<T>});
    }
    double at(std::size_t row, std::size_t column) const {
        double value = 0.0;
        read(row, 1, column, &value);
        return value;
    }
    void read(std::size_t first, std::size_t n, std::size_t column, double* out) const {
        const Column& of = columns_[column];
        of.read({of.data, rows, 1, of.stride, 0}, first, n, out);
    }

    std::size_t rows;

private:
    struct Column {
        const char* data;
        std::ptrdiff_t stride;
        void (*read)(const Strided<char>& column, std::size_t first, std::size_t n, double* out);
    };
    std::vector<Column> columns_;

    template <class T>
    static void read_as(const Strided<char>& column, std::size_t first, std::size_t n, double* out) {
        Strided<T>{column.data, column.rows, 1, column.row_stride, 0}.read(first, n, 0, out);
    }
};

}  // namespace rfsize
