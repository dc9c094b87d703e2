// Memory for the time of one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

namespace rfsize {

// What blocks of memory are aligned to, in bytes: a vector of the processor.
inline constexpr std::size_t ALIGNMENT = 64;

// What each thread keeps between calls, so that a call on a few rows allocates nothing.
struct KeptMemory {
    static constexpr std::size_t SIZE = std::size_t{1} << 16;
    alignas(ALIGNMENT) unsigned char bytes[SIZE];
    std::size_t used;
};
inline thread_local KeptMemory kept_memory;

// Numbers that a block of code needs for as long as it runs, of no value at first. They come from the memory that the
// thread keeps, if there is room. So they end in the reverse order of their beginning: they are no members of an object
// that outlives the call, and are not moved.
template <class T>
class Temporary {
public:
    explicit Temporary(std::size_t n)
        : n_(n), n_bytes_((n * sizeof(T) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + APART) {
        KeptMemory& kept = kept_memory;
        is_kept_ = n_bytes_ <= KeptMemory::SIZE - kept.used;
        if (is_kept_) {
            data_ = reinterpret_cast<T*>(kept.bytes + kept.used);
            kept.used += n_bytes_;
        } else {
            data_ = static_cast<T*>(::operator new(n_bytes_, std::align_val_t{ALIGNMENT}));
        }
    }
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() {
        if (is_kept_)
            kept_memory.used -= n_bytes_;
        else
            ::operator delete(data_, std::align_val_t{ALIGNMENT});
    }

    T* data() const { return data_; }
    std::size_t size() const { return n_; }
    T* begin() const { return data_; }
    T& operator[](std::size_t i) const { return data_[i]; }
    std::span<T> span() const { return {data_, n_}; }

private:
    // Blocks that begin at the same place of a page would wait for each other's numbers.
    static constexpr std::size_t APART = 3 * ALIGNMENT;

    std::size_t n_, n_bytes_;
    T* data_;
    bool is_kept_;
};

}  // namespace rfsize
