// Which processor this is, and which of the compiled levels it gets.
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "primitives.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rfsize {

namespace {

#if defined(__x86_64__)
struct Processor {
    bool has_v3 = false, has_v4 = false;

    Processor() {
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (!__get_cpuid(1, &a, &b, &c, &d)) return;
        // OSXSAVE, AVX, FMA, F16C, MOVBE
        constexpr unsigned needed = 1u << 27 | 1u << 28 | 1u << 12 | 1u << 29 | 1u << 22;
        if ((c & needed) != needed) return;
        // The registers must be kept by the operating system as well.
        unsigned low = 0, high = 0;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        if ((low & 0x6) != 0x6) return;
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
        const unsigned extended = b;
        if (!__get_cpuid(0x80000001, &a, &b, &c, &d)) return;
        // AVX2, BMI1, BMI2, and LZCNT
        constexpr unsigned of_v3 = 1u << 5 | 1u << 3 | 1u << 8;
        has_v3 = (extended & of_v3) == of_v3 && (c & 1u << 5) != 0;
        // AVX-512 F, BW, CD, DQ, VL
        constexpr unsigned of_v4 = 1u << 16 | 1u << 30 | 1u << 28 | 1u << 17 | 1u << 31;
        has_v4 = has_v3 && (extended & of_v4) == of_v4 && (low & 0xE6) == 0xE6;
    }
};
#endif

const Primitives& chosen() {
    // The levels that this processor has, the best last.
    std::vector<const Primitives*> tables{&table_baseline};
#if defined(__x86_64__)
    const Processor processor;
    if (processor.has_v3) tables.push_back(&table_v3);
    if (processor.has_v4) tables.push_back(&table_v4);
#endif
    const char* named = std::getenv("RFSIZE_PROCESSOR");
    if (named == nullptr || *named == '\0') return *tables.back();
    for (const Primitives* table : tables)
        if (std::string_view(table->level) == named) return *table;
    throw std::invalid_argument("RFSIZE_PROCESSOR names the level '" + std::string(named) +
                                "', which this processor or this build of rfsize does not have: name " +
                                tables.back()->level + ", or leave the variable out");
}

}  // namespace

const Primitives& primitives() {
    static const Primitives& table = chosen();
    return table;
}

}  // namespace rfsize
