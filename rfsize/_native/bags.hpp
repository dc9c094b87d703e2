// The generators that frameworks draw their bags with.
#pragma once

#include <cstdint>
#include <span>

#include "arrays.hpp"

namespace rfsize {

// LightGBM: write into inbag, of rows and trees, whether the draw of each tree, from the first on, is below the row's
// level. first are the states of the rows' generators, which each tree's multiplier and increment advance.
inline void draw_lightgbm(std::span<const std::uint32_t> first, std::span<const std::uint32_t> multiplier,
                          std::span<const std::uint32_t> increment, std::span<const std::int64_t> level,
                          const Matrix<bool>& inbag, std::size_t first_tree) {
    for (std::size_t i = 0; i < first.size(); ++i) {
        bool* drawn = inbag.data + i * inbag.columns + first_tree;
        for (std::size_t tree = 0; tree < multiplier.size(); ++tree) {
            const std::uint32_t state = first[i] * multiplier[tree] + increment[tree];
            drawn[tree] = static_cast<std::int64_t>((state >> 16) & 0x7FFF) < level[i];
        }
    }
}

// XGBoost: step is what a tree's seed is multiplied by for its draw on each row, modulo 2^63.
inline void draw_xgboost(std::span<const std::uint64_t> step, std::span<const std::uint64_t> tree_seed, double level,
                         const Matrix<bool>& inbag) {
    constexpr std::uint64_t mask = (std::uint64_t{1} << 63) - 1;
    for (std::size_t i = 0; i < step.size(); ++i)
        for (std::size_t tree = 0; tree < tree_seed.size(); ++tree)
            inbag.data[i * inbag.columns + tree] =
                static_cast<double>(static_cast<std::int64_t>(step[i] * tree_seed[tree] & mask)) < level;
}

}  // namespace rfsize
