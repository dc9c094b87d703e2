// What the bindings share: arrays that are checked, and the GIL that is released. Types and sizes are checked in the
// bindings, and nothing else knows Python.
#pragma once

#include <nanobind/ndarray.h>

#include <memory>
#include <vector>

#include "buffers.hpp"

namespace rfsize {

using Released = nb::gil_scoped_release;
using ConstDoubles = Array<const double, 1>;
using ConstBounds = Array<const std::int32_t, 1>;
using ConstIndices = Array<const std::int64_t, 1>;

void bind_forest(nb::module_& m);
void bind_sums(nb::module_& m);
void bind_stops(nb::module_& m);

template <class T>
std::vector<T> copied(const Array<const T, 1>& array) {
    return {array.data(), array.data() + array.size()};
}

inline void expect(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
}

}  // namespace rfsize
