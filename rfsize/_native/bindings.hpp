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

// A part of the module that stands in a file of its own, which nobody lists: each makes itself known.
class Part {
public:
    using Bind = void (*)(nb::module_&);

    explicit Part(Bind bind) noexcept : bind_(bind), next_(first()) { first() = this; }

    static void bind_all(nb::module_& m) {
        for (const Part* part = first(); part != nullptr; part = part->next_) part->bind_(m);
    }

private:
    Bind bind_;
    const Part* next_;

    static const Part*& first() noexcept {
        static const Part* part = nullptr;
        return part;
    }
};

void bind_forest(nb::module_& m);
void bind_sums(nb::module_& m);
void bind_urn(nb::module_& m);

template <class T>
std::vector<T> copied(const Array<const T, 1>& array) {
    return {array.data(), array.data() + array.size()};
}

inline void expect(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
}

}  // namespace rfsize
