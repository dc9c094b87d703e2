// NumPy's arrays at the border: their types and shapes are checked here, and nowhere after.
#pragma once

#include <nanobind/ndarray.h>

#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "arrays.hpp"

namespace rfsize {

namespace nb = nanobind;

// A buffer that is held, of whatever type. It stays where it is: shape and strides may lie within.
class Buffer {
public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { PyBuffer_Release(&view_); }

    bool hold(nb::handle from, int flags) {
        PyBuffer_Release(&view_);
        if (PyObject_GetBuffer(from.ptr(), &view_, flags | PyBUF_FORMAT) == 0) return true;
        PyErr_Clear();
        return false;
    }

    // Whether the numbers are of this type, in the machine's own order of bytes.
    template <class T>
    bool is() const {
        if (static_cast<std::size_t>(view_.itemsize) != sizeof(T) || view_.format == nullptr) return false;
        const char* format = view_.format;
        if (*format == '@' || *format == '=') ++format;
        if (*format == '\0' || format[1] != '\0') return false;
        if constexpr (std::is_same_v<std::remove_const_t<T>, bool>)
            return *format == '?';
        else if constexpr (std::is_floating_point_v<T>)
            return *format == 'f' || *format == 'd';
        else if constexpr (std::is_signed_v<T>)
            return std::strchr("bhilq", *format) != nullptr;
        else
            return std::strchr("BHILQ", *format) != nullptr;
    }

    const Py_buffer& view() const { return view_; }

private:
    Py_buffer view_{};  // of nothing, which may be released as well
};

// An array of N dimensions whose numbers lie one after another.
template <class T, int N>
class Array {
public:
    bool hold(nb::handle from) {
        constexpr int flags = PyBUF_C_CONTIGUOUS | (std::is_const_v<T> ? 0 : PyBUF_WRITABLE);
        return buffer_.hold(from, flags) && buffer_.is<T>() && buffer_.view().ndim == N &&
               (size() == 0 || reinterpret_cast<std::uintptr_t>(data()) % alignof(T) == 0);
    }

    std::size_t shape(int axis) const { return static_cast<std::size_t>(buffer_.view().shape[axis]); }
    std::size_t size() const {
        std::size_t n = 1;
        for (int axis = 0; axis < N; ++axis) n *= shape(axis);
        return n;
    }
    T* data() const { return static_cast<T*>(buffer_.view().buf); }
    std::span<T> span() const { return {data(), size()}; }
    Matrix<T> matrix() const { return {data(), shape(0), shape(1)}; }
    Cube<T> cube() const { return {data(), shape(0), shape(1), shape(2)}; }

    void expect(std::array<std::size_t, N> wanted, const char* name) const {
        for (int axis = 0; axis < N; ++axis)
            if (shape(axis) != wanted[static_cast<std::size_t>(axis)])
                throw std::invalid_argument(std::string(name) + " has " + std::to_string(shape(axis)) + " along axis " +
                                            std::to_string(axis) + " where " +
                                            std::to_string(wanted[static_cast<std::size_t>(axis)]) + " are expected");
    }

private:
    Buffer buffer_;
};

// A matrix of numbers of either precision, in any layout, aligned or not.
class AnyMatrix {
public:
    bool hold(nb::handle from) {
        return buffer_.hold(from, PyBUF_STRIDED_RO) && buffer_.view().ndim == 2 &&
               (buffer_.is<float>() || buffer_.is<double>());
    }
    bool is_single() const { return buffer_.is<float>(); }
    std::size_t rows() const { return static_cast<std::size_t>(buffer_.view().shape[0]); }
    std::size_t columns() const { return static_cast<std::size_t>(buffer_.view().shape[1]); }
    template <class T>
    Strided<T> strided() const {
        const Py_buffer& view = buffer_.view();
        return {static_cast<const char*>(view.buf), rows(), columns(), view.strides[0], view.strides[1]};
    }

private:
    Buffer buffer_;
};

}  // namespace rfsize

namespace nanobind::detail {

template <class T, int N>
struct type_caster<rfsize::Array<T, N>> {
    using Held = rfsize::Array<T, N>;
    NB_TYPE_CASTER(Held, const_name("numpy.typing.NDArray[numpy.") + dtype_traits<T>::name + const_name("]"))

    bool from_python(handle src, uint8_t, cleanup_list*) noexcept { return value.hold(src); }
};

template <>
struct type_caster<rfsize::AnyMatrix> {
    NB_TYPE_CASTER(rfsize::AnyMatrix, const_name("numpy.typing.NDArray[numpy.floating[typing.Any]]"))

    bool from_python(handle src, uint8_t, cleanup_list*) noexcept { return value.hold(src); }
};

}  // namespace nanobind::detail
