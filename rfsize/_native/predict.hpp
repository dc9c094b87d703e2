// The one loop over stages of trees and blocks of rows, with a rule of stopping as its parameter.
#pragma once

#include <numeric>
#include <optional>

#include "stop.hpp"

namespace rfsize {

// Where no more of the rows that go down trees together are open, the others are left out.
inline constexpr double SHARE_OPEN = 0.75;

template <class Rule>
class Predictor {
public:
    Predictor(const Forest& forest, const std::uint16_t* q, std::size_t n_rows, Rule& rule)
        : forest_(forest), q_(q), rule_(rule), going_(n_rows) {
        std::iota(going_.begin(), going_.begin() + n_rows, std::uint32_t{0});
    }

    // Send rows down trees until each is settled, or no tree is left.
    void run() {
        std::size_t n = going_.size(), member = 0, last = rule_.first_stage();
        // A few rows need no memory for many.
        if (n > FEW) group_.emplace(forest_, q_, std::min(n, TOGETHER));
        // Stage by stage, so that rows that go on are many enough to go down trees together.
        while (n > FEW && member < forest_.n_members()) {
            last = std::min(last, forest_.n_members());
            std::size_t kept = 0;
            for (std::size_t first = 0; first < n; first += TOGETHER) {
                const auto rows = going_.span().subspan(first, std::min(TOGETHER, n - first));
                const std::size_t open = run_together(rows, member, last);
                std::copy_n(rows.begin(), open, going_.begin() + kept);
                kept += open;
            }
            n = kept;
            member = last;
            last *= STAGES_GROW;
        }
        if (member == forest_.n_members()) return;
        RowAlone alone(forest_, std::min(std::max(MOST_AHEAD, forest_.n_outputs()), forest_.n_trees()));
        for (std::size_t j = 0; j < n; ++j) run_alone(going_.span().subspan(j, 1), member, alone);
    }

private:
    const Forest& forest_;
    const std::uint16_t* q_;
    Rule& rule_;
    Temporary<std::uint32_t> going_;
    std::optional<RowsTogether> group_;
    // Members that predict a row at once; where it may stop, those beyond its stop do so in vain.
    static constexpr std::size_t FEWEST_AHEAD = Rule::stops ? 16 : AT_ONCE, MOST_AHEAD = Rule::stops ? 64 : AT_ONCE;

    // Send these rows down some members, and count those still open, which then stand in front.
    std::size_t run_together(std::span<std::uint32_t> rows, std::size_t member, std::size_t last) {
        RowsTogether& group = *group_;  // NOLINT(bugprone-unchecked-optional-access): made where rows are many
        group.take(rows);
        rule_.enter(rows);
        const Temporary<std::uint32_t> kept(rows.size());
        std::size_t n = rows.size(), open = n;
        while (member < last && open > 0) {
            for (std::size_t output = 0; output < forest_.n_outputs(); ++output)
                group.reach(member * forest_.n_outputs() + output,
                            [&](auto leaves) { rule_.add(member, output, leaves, n); });
            ++member;
            if (!rule_.looks(member)) continue;
            open -= rule_.settle(member, n);
            if (open > 0 && static_cast<double>(open) <= SHARE_OPEN * static_cast<double>(n)) {
                rule_.leave(n);
                kept_open(rows.first(n), kept);
                rule_.keep(kept.span().first(open));
                group.keep(kept.span().first(open));
                n = open;
            }
        }
        rule_.leave(n);
        return kept_open(rows.first(n), kept);
    }

    // Move the rows that are open to the front, where they were goes to kept; and count them.
    std::size_t kept_open(std::span<std::uint32_t> rows, const Temporary<std::uint32_t>& kept) const {
        std::size_t n = 0;
        for (std::size_t j = 0; j < rows.size(); ++j) {  // without a branch: nobody foresees which
            kept[n] = static_cast<std::uint32_t>(j);
            rows[n] = rows[j];
            n += !rule_.is_settled(j);
        }
        return n;
    }

    // Take one row to its answer, several members at a time; those beyond it do not count.
    void run_alone(std::span<const std::uint32_t> row, std::size_t member, RowAlone& alone) {
        const std::size_t n_outputs = forest_.n_outputs(), n_members = forest_.n_members();
        alone.take(q_ + row[0] * forest_.n_columns());
        rule_.enter(row);
        while (member < n_members) {
            const std::size_t wanted = std::clamp(member / 2, FEWEST_AHEAD, MOST_AHEAD) / n_outputs;
            const std::size_t ahead = std::min(std::max<std::size_t>(1, wanted), n_members - member);
            const std::uint32_t* place = alone.reach(member * n_outputs, ahead * n_outputs);
            for (std::size_t j = 0; j < ahead; ++j) {
                for (std::size_t output = 0; output < n_outputs; ++output)
                    rule_.add(member, output, LeafPlaces{place++}, 1);
                ++member;
                if (rule_.looks(member) && rule_.settle(member, 1) > 0) {
                    rule_.leave(1);
                    return;
                }
            }
        }
        rule_.leave(1);
    }
};

}  // namespace rfsize
