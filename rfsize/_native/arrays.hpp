// Views of arrays that somebody else owns.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

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
};

}  // namespace rfsize
