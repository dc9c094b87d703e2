// Rows as the trees of one forest compare them.
#pragma once

#include <memory>

#include "predict.hpp"

namespace rfsize {

using ForestPointer = std::shared_ptr<const Forest>;

class Rows {
public:
    Rows(ForestPointer forest, std::size_t n_rows)
        : forest_(std::move(forest)),
          n_rows_(n_rows),
          own_(std::make_unique_for_overwrite<std::uint16_t[]>(n_rows * forest_->n_columns() + READ_BEYOND)),
          q_(own_.get()) {}
    // Rows whose columns somebody else keeps.
    Rows(ForestPointer forest, std::size_t n_rows, std::uint16_t* q)
        : forest_(std::move(forest)), n_rows_(n_rows), q_(q) {}

    const Forest& forest() const { return *forest_; }
    std::size_t n_rows() const { return n_rows_; }
    const std::uint16_t* q() const { return q_; }
    std::uint16_t* q() { return q_; }

    // Rows that a rule holds at once.
    std::size_t most() const { return std::max<std::size_t>(1, std::min(n_rows_, TOGETHER)); }

    // Send the rows down the trees by a rule, which is made of the forest, these arguments, and `most`.
    template <class Rule, class... Of>
    [[gnu::noinline]] void run(Of&&... of) const {
        Rule rule(forest(), std::forward<Of>(of)..., most());
        Predictor(forest(), q(), n_rows(), rule).run();
    }

private:
    ForestPointer forest_;
    std::size_t n_rows_;
    std::unique_ptr<std::uint16_t[]> own_;
    std::uint16_t* q_;
};

}  // namespace rfsize
