// What Python sees. Types and sizes are checked here, and loops run without the GIL; nothing else knows Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include "bags.hpp"
#include "buffers.hpp"
#include "count.hpp"
#include "few.hpp"
#include "leads.hpp"
#include "theory.hpp"
#include "urn.hpp"

namespace rfsize {

using Released = nb::gil_scoped_release;

template <class T>
std::vector<T> copied(const Array<const T, 1>& array) {
    return {array.data(), array.data() + array.size()};
}

void expect(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
}

using Doubles64 = nb::ndarray<nb::numpy, double>;

// An array of NumPy's that owns these numbers.
Doubles64 numpy_of(std::vector<double>&& numbers, std::initializer_list<std::size_t> shape) {
    auto* kept = new std::vector<double>(std::move(numbers));
    const nb::capsule owner(kept, [](void* held) noexcept { delete static_cast<std::vector<double>*>(held); });
    return Doubles64(kept->data(), shape, owner);
}

// ------------------------------------------------------------------------------------------------------------- forests

using ForestPointer = std::shared_ptr<const Forest>;

ForestPointer make_forest(const Array<const std::uint64_t, 1>& nodes, nb::handle value, const Array<const std::uint16_t, 1>& vote,
                          const Array<const std::int64_t, 1>& tree_start, const Array<const std::int64_t, 1>& bit_start,
                          const Array<const std::uint32_t, 1>& bits, const Array<const std::int64_t, 1>& feature,
                          const Array<const std::int64_t, 1>& cut_start, const Array<const double, 1>& cuts,
                          const Array<const std::int64_t, 1>& start, const Array<const std::uint8_t, 1>& missing,
                          const Array<const std::int64_t, 1>& base, std::size_t n_outputs, std::size_t n_features, bool single_precision,
                          double missing_value, double zero_within, double lowest_category, bool absent_is_missing) {
    Array<const float, 2> single;
    Array<const double, 2> twofold;
    const bool is_single = single.hold(value);
    if (!is_single && !twofold.hold(value)) throw nb::type_error("value must be a matrix of float32 or float64");
    Nodes of_trees{copied(nodes), {}, {}, is_single ? single.shape(1) : twofold.shape(1), copied(vote), copied(tree_start), copied(bit_start), copied(bits)};
    if (is_single) of_trees.single.assign(single.data(), single.data() + single.size());
    else of_trees.twofold.assign(twofold.data(), twofold.data() + twofold.size());
    Columns columns{copied(feature), copied(cut_start), copied(cuts), copied(start), copied(missing), copied(base)};
    const Reading reading{single_precision, missing_value, zero_within, lowest_category, absent_is_missing};
    return std::make_shared<const Forest>(std::move(of_trees), std::move(columns), n_outputs, n_features, reading);
}

// A read-only view of an array that a forest owns.
template <class T>
nb::object view(nb::handle owner, const std::vector<T>& of, std::size_t width = 0) {
    const std::size_t shape[2] = {width ? of.size() / width : of.size(), width};
    static const T nothing{};
    return nb::cast(nb::ndarray<nb::numpy, const T>(of.empty() ? &nothing : of.data(), width ? 2 : 1, shape, owner));
}

nb::tuple views_of_nodes(nb::handle self) {
    const Nodes& nodes = nb::cast<const Forest&>(self).nodes();
    const nb::object value = nodes.single.empty() ? view(self, nodes.twofold, nodes.width) : view(self, nodes.single, nodes.width);
    return nb::make_tuple(view(self, nodes.nodes), value, view(self, nodes.vote), view(self, nodes.tree_start), view(self, nodes.bit_start),
                          view(self, nodes.bits));
}

nb::tuple views_of_columns(nb::handle self) {
    const Columns& columns = nb::cast<const Forest&>(self).columns();
    return nb::make_tuple(view(self, columns.feature), view(self, columns.cut_start), view(self, columns.cuts), view(self, columns.start),
                          view(self, columns.missing), view(self, columns.base));
}

// Rows as the trees of one forest compare them.
class Rows {
public:
    Rows(ForestPointer forest, std::size_t n_rows)
        : forest_(std::move(forest)), n_rows_(n_rows), q_(std::make_unique_for_overwrite<std::uint16_t[]>(n_rows * forest_->n_columns())) {}

    const Forest& forest() const { return *forest_; }
    std::size_t n_rows() const { return n_rows_; }
    const std::uint16_t* q() const { return q_.get(); }
    std::uint16_t* q() { return q_.get(); }

    Rows taken(std::span<const std::int64_t> index) const {
        Rows found(forest_, index.size());
        const std::size_t width = forest_->n_columns();
        for (std::size_t i = 0; i < index.size(); ++i) {
            expect(static_cast<std::uint64_t>(index[i]) < n_rows_, "a row is taken that is not there");
            std::copy_n(q() + static_cast<std::size_t>(index[i]) * width, width, found.q() + i * width);
        }
        return found;
    }

    // Rows that a rule holds at once.
    std::size_t most() const { return std::max<std::size_t>(1, std::min(n_rows_, TOGETHER)); }

    template <class Rule>
    void run(Rule& rule) const {
        Predictor(forest(), q(), n_rows(), rule).run();
    }

private:
    ForestPointer forest_;
    std::size_t n_rows_;
    std::unique_ptr<std::uint16_t[]> q_;
};

Rows quantised(ForestPointer forest, const AnyMatrix& X) {
    expect(X.columns() >= forest->n_features(), "the rows have fewer columns than the forest was trained on");
    Released released;
    Rows found(forest, X.rows());
    if (X.is_single()) forest->quantise(X.strided<float>(), found.q());
    else forest->quantise(X.strided<double>(), found.q());
    return found;
}

Rows quantised_sparse(ForestPointer forest, const Array<const double, 1>& data, const Array<const std::int64_t, 1>& index,
                      const Array<const std::int64_t, 1>& start) {
    expect(start.size() > 0 && data.size() == index.size(), "the sparse rows are damaged: values and columns are not alike in number");
    std::int64_t last = 0;
    for (const std::int64_t each : start.span()) {
        expect(last <= each && each <= static_cast<std::int64_t>(data.size()), "the sparse rows are damaged: a row does not begin where another ends");
        last = each;
    }
    Released released;
    Rows found(forest, start.size() - 1);
    forest->quantise_sparse(data.span(), index.span(), start.span(), found.q());
    return found;
}

void reach(const Rows& rows, const Array<const std::int64_t, 1>& index, const Array<std::int64_t, 2>& leaf) {
    index.expect({rows.forest().n_nodes()}, "index");
    leaf.expect({rows.n_rows(), rows.forest().n_trees()}, "leaf");
    Released released;
    EveryLeaf rule(rows.forest(), index.span(), leaf.matrix(), rows.most());
    rows.run(rule);
}

template <class Real>
void expect_totals(const Rows& rows, const Array<Real, 2>& total) {
    total.expect({rows.n_rows(), rows.forest().n_scores()}, "total");
    expect(rows.forest().is_single() == std::is_same_v<Real, float>, "total is of another precision than the forest");
}

Answers answers_of(const Rows& rows, const Array<std::int64_t, 1>& label, const Array<std::int64_t, 1>& asked) {
    label.expect({rows.n_rows()}, "label");
    asked.expect({rows.n_rows()}, "asked");
    return {label.data(), asked.data()};
}

template <class Real>
void add_scores(const Rows& rows, const Array<Real, 2>& total) {
    expect_totals(rows, total);
    Released released;
    AllScores<Real> rule(rows.forest(), total.matrix(), rows.most());
    rows.run(rule);
}

void expect_fit(const Forest& forest, const ScoreStop& stop) {
    expect(stop.n_members() == forest.n_members() && stop.drift.size() == forest.n_scores(), "the stops are for another forest");
}

template <class Real>
void settle(const Rows& rows, const ScoreStop& stop, const Array<Real, 2>& total, const Array<std::int64_t, 1>& label,
            const Array<std::int64_t, 1>& asked) {
    expect_totals(rows, total);
    expect_fit(rows.forest(), stop);
    const Answers answers = answers_of(rows, label, asked);
    Released released;
    ByScores<Real> rule(rows.forest(), stop, total.matrix(), answers, rows.most());
    rows.run(rule);
}

template <class Real>
void settle_numbers(const Rows& rows, const SpreadStop& stop, const Array<Real, 2>& total, const Array<std::int64_t, 1>& asked) {
    expect_totals(rows, total);
    expect(stop.start.size() == rows.forest().n_scores(), "the stops are for another forest");
    asked.expect({rows.n_rows()}, "asked");
    Released released;
    BySpread<Real> rule(rows.forest(), stop, total.matrix(), asked.data(), rows.most());
    rows.run(rule);
}

template <class Real>
Alone<Real> alone_of(const Forest& forest, const Array<const Real, 1>& alone) {
    alone.expect({forest.n_outputs() + 1}, "alone");
    expect(forest.is_single() == std::is_same_v<Real, float>, "alone is of another precision than the forest");
    expect(forest.n_outputs() > 1 || forest.n_voted() > 0, "the leaves of the forest cast no votes");
    return {alone.data()[0], {alone.data() + 1, alone.data() + alone.size()}};
}

// Raise where stops are not of as many members, or of as many classes.
struct CheckedStop {
    std::size_t n_members, n_classes;

    void sizes(const std::vector<std::int32_t>& bounds) const { expect(bounds.size() == n_members + 1, "the stops are for another number of trees"); }
    void operator()(const NeverStops&) const {}
    void operator()(const BinaryStops& stop) const {
        sizes(stop.lower);
        sizes(stop.upper);
        expect(n_classes == 2, "the stops are for two classes");
    }
    void operator()(const TernaryStops& stop) const {
        expect(stop.decision.size() == ternary_index(n_members + 1, 0, 0) && n_classes == 3, "the stops are for another number of trees, or of classes");
        for (const std::int8_t each : stop.decision) expect(each < 3, "the stops answer with a class that is none");
    }
    void operator()(const LeaderStops& stop) const { sizes(stop.upper); }
    void operator()(const WeightedStops& stop) const {
        expect(stop.weight.size() == n_members && stop.needed.size() == n_members + 1, "the stops are for another number of members");
    }
};

template <class Real, class Count>
void decide(const Rows& rows, const Array<const Real, 1>& alone, const VoteStop& stop, const Array<Count, 2>& counts,
            const Array<std::int64_t, 1>& label, const Array<std::int64_t, 1>& asked) {
    const Forest& forest = rows.forest();
    const Alone<Real> of = alone_of(forest, alone);
    const std::size_t n_classes = counts.shape(1);
    counts.expect({rows.n_rows(), n_classes}, "counts");
    expect(n_classes >= 2 && n_classes >= (forest.n_outputs() > 1 ? forest.n_outputs() : forest.n_voted()), "counts have fewer classes than the trees vote for");
    std::visit(CheckedStop{forest.n_members(), n_classes}, stop);
    const Answers answers = answers_of(rows, label, asked);
    Released released;
    std::visit(
        [&]<class Stop>(const Stop& one) {
            using Rule = ByVotes<Real, Stop>;
            if constexpr (std::is_same_v<typename Rule::Count, Count>) {
                Rule rule(forest, of, one, counts.matrix(), answers, rows.most());
                rows.run(rule);
            } else {
                throw std::invalid_argument("counts are of another type than the votes' weights");
            }
        },
        stop);
}

template <class Real>
void cast_votes(const Rows& rows, const Array<const Real, 1>& alone, const Array<std::int64_t, 2>& votes) {
    const Alone<Real> of = alone_of(rows.forest(), alone);
    votes.expect({rows.n_rows(), rows.forest().n_members()}, "votes");
    Released released;
    EveryVote<Real> rule(rows.forest(), of, votes.matrix(), rows.most());
    rows.run(rule);
}

template <class Real>
void predict_sums(const Predicting& predicting, const Array<Real, 2>& total, const Array<double, 2>& out) {
    out.expect({total.shape(0), out.shape(1)}, "out");
    expect(out.shape(1) == total.shape(1) || (total.shape(1) == 1 && out.shape(1) == 2), "out has not one column for each class");
    Released released;
    predict_from(predicting, total.matrix(), out.matrix());
}

// ------------------------------------------------------------------------------------------------------------ a few rows

class Few {
public:
    Few(ForestPointer forest, const ScoreStop& stop, const Predicting& predicting, const Array<const double, 1>& start, double threshold,
        bool refuses_infinite, bool refuses_missing)
        : forest_(std::move(forest)), few_{*forest_, stop, predicting, threshold, refuses_infinite, refuses_missing},
          single_(start.data(), start.data() + start.size()), twofold_(start.data(), start.data() + start.size()) {
        start.expect({forest_->n_scores()}, "start");
        expect_fit(*forest_, stop);
    }

    bool labels(const Array<const double, 2>& X, const Array<std::int64_t, 2>& answer) const {
        expect_columns(X);
        answer.expect({2, X.shape(0)}, "answer");
        Released released;
        if (!few_.takes(X.matrix())) return false;
        const Answers answers{answer.data(), answer.data() + X.shape(0)};
        if (forest_->is_single()) few_.labels(X.matrix(), single_, answers);
        else few_.labels(X.matrix(), twofold_, answers);
        return true;
    }

    bool predict(const Array<const double, 2>& X, const Array<double, 2>& out) const {
        expect_columns(X);
        const std::size_t n_scores = forest_->n_scores();
        expect(out.shape(0) == X.shape(0) && (out.shape(1) == n_scores || (n_scores == 1 && out.shape(1) == 2)), "out has another shape than is predicted");
        Released released;
        if (!few_.takes(X.matrix())) return false;
        if (forest_->is_single()) few_.predict(X.matrix(), single_, out.matrix());
        else few_.predict(X.matrix(), twofold_, out.matrix());
        return true;
    }

private:
    ForestPointer forest_;
    FewRows few_;
    std::vector<float> single_;
    std::vector<double> twofold_;

    void expect_columns(const Array<const double, 2>& X) const {
        expect(X.shape(1) >= forest_->n_features(), "the rows have fewer columns than the forest was trained on");
    }
};

// --------------------------------------------------------------------------------------------------------------- the urn

// Bounds of stops on two classes' votes: after t votes, -1 ≤ lower < upper ≤ t + 1.
void expect_bounds(std::size_t n, std::span<const std::int32_t> lower, std::span<const std::int32_t> upper) {
    expect(n >= 2 && lower.size() == n && upper.size() == n, "the bounds are for another number of trees");
    for (std::size_t t = 0; t < n; ++t)
        expect(-1 <= lower[t] && lower[t] < upper[t] && upper[t] <= static_cast<std::int64_t>(t) + 1, "the bounds of a stop leave the tallies that there are");
    expect(lower[n - 1] >= 0 && upper[n - 1] == lower[n - 1] + 1, "the bounds of a stop leave rows open after the last vote");
}

Int trees_of(const Array<const double, 3>& wins) {
    expect(wins.shape(0) == 3 && wins.shape(1) == wins.shape(2) && wins.shape(1) >= 2, "wins are not of three classes");
    return static_cast<Int>(wins.shape(1)) - 1;
}

template <class T>
void expect_states(Int n_trees, const Array<T, 1>& decision) {
    decision.expect({ternary_index(at(n_trees + 1), 0, 0)}, "decision");
    for (const std::int8_t each : decision.span()) expect(each >= -1 && each < 3, "a state is decided for a class that is none");
}

using ConstDoubles = Array<const double, 1>;
using ConstBounds = Array<const std::int32_t, 1>;

void bind_urn(nb::module_& m) {
    m.def("step_back", [](const Array<double, 1>& mass, Int asked) {
        expect(asked >= 0 && mass.size() >= at(asked) + 2, "mass has no layer of so many votes");
        step_back(mass.span(), asked, 0, asked);
    }, nb::arg("mass"), nb::arg("asked"));
    m.def("step_back_plane", [](const Array<double, 2>& mass, Int asked) {
        expect(asked >= 0 && mass.shape(0) == mass.shape(1) && mass.shape(0) >= at(asked) + 2, "mass has no layer of so many votes");
        step_back_plane(mass.span(), static_cast<Int>(mass.shape(0)), asked);
    }, nb::arg("mass"), nb::arg("asked"));
    m.def("threshold_bounds", [](const ConstDoubles& wins_0, const ConstDoubles& wins_1, double alpha, const Array<std::int32_t, 1>& lower, const Array<std::int32_t, 1>& upper) {
        wins_1.expect({wins_0.size()}, "wins_1");
        expect_bounds(wins_0.size(), lower.span(), upper.span());
        Released released;
        threshold_bounds(wins_0.span(), wins_1.span(), alpha, lower.span(), upper.span());
    }, nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("alpha"), nb::arg("lower"), nb::arg("upper"));
    m.def("binary_outcome", [](const ConstDoubles& wins_0, const ConstDoubles& wins_1, const ConstBounds& lower, const ConstBounds& upper, double alpha) {
        wins_1.expect({wins_0.size()}, "wins_1");
        expect_bounds(wins_0.size(), lower.span(), upper.span());
        Released released;
        const auto [wrong_0, wrong_1, trees, unsettled] = binary_outcome(wins_0.span(), wins_1.span(), lower.span(), upper.span(), alpha);
        return std::array{wrong_0, wrong_1, trees, unsettled};
    }, nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("lower"), nb::arg("upper"), nb::arg("alpha"));
    m.def("cheapest_bounds", [](const ConstDoubles& prior, const ConstDoubles& wins_0, const ConstDoubles& wins_1, const ConstDoubles& penalty_0, const ConstDoubles& penalty_1,
                                const Array<std::int32_t, 2>& lower, const Array<std::int32_t, 2>& upper) {
        const std::size_t n = prior.size(), penalties = penalty_0.size();
        wins_0.expect({n}, "wins_0");
        wins_1.expect({n}, "wins_1");
        penalty_1.expect({penalties}, "penalty_1");
        lower.expect({penalties, n}, "lower");
        upper.expect({penalties, n}, "upper");
        for (std::size_t which = 0; which < penalties; ++which) expect_bounds(n, lower.matrix()[which], upper.matrix()[which]);
        std::vector<double> found(penalties * 3);
        {
            Released released;
            CheapestBounds(prior.span(), wins_0.span(), wins_1.span(), penalty_0.span(), penalty_1.span(), lower.matrix(), upper.matrix()).run({found.data(), penalties, 3});
        }
        return numpy_of(std::move(found), {penalties, 3});
    }, nb::arg("prior"), nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("penalty_0"), nb::arg("penalty_1"), nb::arg("lower"), nb::arg("upper"));
    m.def("extensions", [](const ConstDoubles& prior, const ConstDoubles& wins_0, const ConstDoubles& wins_1, const ConstBounds& lower, const ConstBounds& upper) {
        wins_0.expect({prior.size()}, "wins_0");
        wins_1.expect({prior.size()}, "wins_1");
        expect_bounds(prior.size(), lower.span(), upper.span());
        std::vector<double> outcome(3), changes(2 * prior.size() * 3);
        {
            Released released;
            extensions(prior.span(), wins_0.span(), wins_1.span(), lower.span(), upper.span(), outcome, changes);
        }
        return std::pair(numpy_of(std::move(outcome), {3}), numpy_of(std::move(changes), {2, prior.size(), 3}));
    }, nb::arg("prior"), nb::arg("wins_0"), nb::arg("wins_1"), nb::arg("lower"), nb::arg("upper"));
    m.def("answers_by_tally", [](const ConstBounds& lower, const ConstBounds& upper) {
        expect_bounds(lower.size(), lower.span(), upper.span());
        std::vector<double> answers(2 * lower.size());
        {
            Released released;
            answers_by_tally(lower.span(), upper.span(), {answers.data(), 2, lower.size()});
        }
        return numpy_of(std::move(answers), {2, lower.size()});
    }, nb::arg("lower"), nb::arg("upper"));
    m.def("lossless_decisions", [](Int n_trees, const Array<std::int8_t, 1>& decision) {
        expect(n_trees > 0, "n_trees must be at least 1");
        decision.expect({ternary_index(at(n_trees + 1), 0, 0)}, "decision");
        Released released;
        lossless_decisions(n_trees, decision.span());
    }, nb::arg("n_trees"), nb::arg("decision"));
    m.def("threshold_decisions", [](const Array<const double, 3>& wins, double alpha, const Array<std::int8_t, 1>& decision) {
        const Int n_trees = trees_of(wins);
        expect_states(n_trees, decision);
        Released released;
        threshold_decisions(n_trees, wins.data(), alpha, decision.span());
    }, nb::arg("wins"), nb::arg("alpha"), nb::arg("decision"));
    m.def("cheapest_decisions", [](const Array<const double, 3>& wins, double penalty, const Array<std::int8_t, 1>& decision) {
        const Int n_trees = trees_of(wins);
        expect_states(n_trees, decision);
        Released released;
        return cheapest_decisions(n_trees, wins.data(), penalty, decision.span());
    }, nb::arg("wins"), nb::arg("penalty"), nb::arg("decision"));
    m.def("ternary_outcome", [](const Array<const double, 3>& wins, const Array<const std::int8_t, 1>& decision, double alpha) {
        const Int n_trees = trees_of(wins);
        expect_states(n_trees, decision);
        Released released;
        return ternary_outcome(n_trees, wins.data(), decision.span(), alpha);
    }, nb::arg("wins"), nb::arg("decision"), nb::arg("alpha"));
}

// ------------------------------------------------------------------------------------------- counting, leads, theory, bags

template <class Vote>
void bind_count_votes(nb::module_& m) {
    m.def("count_votes", [](const Array<const Vote, 2>& vote, const Array<const bool, 2>& may_vote, const Array<std::int32_t, 2>& counts) {
        may_vote.expect({vote.shape(0), vote.shape(1)}, "may_vote");
        counts.expect({vote.shape(0), counts.shape(1)}, "counts");
        Released released;
        count_votes(vote.matrix(), may_vote.matrix(), counts.matrix());
    }, nb::arg("vote"), nb::arg("may_vote"), nb::arg("counts"));
}

void bind_counting(nb::module_& m) {
    bind_count_votes<bool>(m);
    bind_count_votes<std::int64_t>(m);
    m.def("add_up_scores", [](const Array<const std::int64_t, 3>& leaf, const Array<const bool, 2>& may_vote, const Array<const double, 2>& raw,
                              const Array<std::int32_t, 1>& asked, const Array<double, 2>& mean, const Array<double, 2>& scatter) {
        const std::size_t n_rows = leaf.shape(0), n_scores = mean.shape(1);
        may_vote.expect({n_rows, leaf.shape(1)}, "may_vote");
        asked.expect({n_rows}, "asked");
        mean.expect({n_rows, n_scores}, "mean");
        scatter.expect({n_rows, n_scores * (n_scores + 1) / 2}, "scatter");
        expect(n_scores > 0 && raw.shape(1) > 0 && (leaf.shape(2) > 1 ? leaf.shape(2) : raw.shape(1)) >= n_scores, "the leaves have fewer scores than there are means");
        Released released;
        const LeafScores scores{leaf.data(), n_rows, leaf.shape(1), leaf.shape(2), raw.matrix()};
        if (n_scores == 1 && leaf.shape(2) == 1) add_up_one_score(scores, may_vote.matrix(), asked.span(), mean.matrix(), scatter.matrix());
        else add_up_scores(scores, may_vote.matrix(), asked.span(), mean.matrix(), scatter.matrix());
    }, nb::arg("leaf"), nb::arg("may_vote"), nb::arg("raw"), nb::arg("asked"), nb::arg("mean"), nb::arg("scatter"));
    m.def("add_at_leaves", [](const Array<const std::int64_t, 3>& leaf, const Array<const bool, 3>& seen, const Array<const double, 3>& value, const Array<double, 1>& total) {
        const std::size_t n_members = leaf.shape(1), n_outputs = leaf.shape(2);
        const auto fits = [&](std::size_t rows, std::size_t members, std::size_t outputs) {
            return rows == leaf.shape(0) && (members == 1 || members == n_members) && (outputs == 1 || outputs == n_outputs);
        };
        expect(fits(seen.shape(0), seen.shape(1), seen.shape(2)), "seen does not fit the leaves");
        expect(fits(value.shape(0), value.shape(1), value.shape(2)), "value does not fit the leaves");
        Released released;
        add_at_leaves(leaf.data(), leaf.shape(0), n_members, n_outputs, {seen.data(), seen.shape(1), seen.shape(2)}, {value.data(), value.shape(1), value.shape(2)}, total.span());
    }, nb::arg("leaf"), nb::arg("seen"), nb::arg("value"), nb::arg("total"));
    m.def("add_to_bins", [](const Array<const double, 2>& score, const Array<const bool, 1>& is_high, const ConstDoubles& weight, double start, double per_unit,
                            const ConstDoubles& bin_at, const Array<double, 2>& low, const Array<double, 2>& high) {
        is_high.expect({score.shape(1)}, "is_high");
        weight.expect({score.shape(1)}, "weight");
        expect(bin_at.size() >= 2, "bin_at needs two knots at least");
        for (const double each : bin_at.span()) expect(each >= 0.0, "bin_at must rise from 0");
        for (const double each : score.matrix().rows ? score.span() : std::span<const double>{}) expect(!std::isnan(each), "a score is not a number");
        low.expect({score.shape(0), low.shape(1)}, "low");
        high.expect({score.shape(0), low.shape(1)}, "high");
        expect(low.shape(1) > 0, "there are no bins");
        Released released;
        add_to_bins(score.matrix(), is_high.span(), weight.span(), {start, per_unit, bin_at.span()}, low.matrix(), high.matrix());
    }, nb::arg("score"), nb::arg("is_high"), nb::arg("weight"), nb::arg("start"), nb::arg("per_unit"), nb::arg("bin_at"), nb::arg("low"), nb::arg("high"));
}

void bind_leads(nb::module_& m) {
    m.def("running_leads", [](const Array<const double, 3>& scores, double cut, const Array<double, 2>& lead, const Array<std::int32_t, 2>& label) {
        lead.expect({scores.shape(0), scores.shape(1)}, "lead");
        label.expect({scores.shape(0), scores.shape(1)}, "label");
        expect(scores.shape(2) > 0, "there are no scores");
        Released released;
        running_leads(scores.span(), scores.shape(2), cut, lead.matrix(), label.matrix());
    }, nb::arg("scores"), nb::arg("cut"), nb::arg("lead"), nb::arg("label"));
    m.def("count_stops", [](const Array<const double, 2>& evidence, const Array<const bool, 2>& differs, const Array<const std::int64_t, 1>& number,
                            const Array<const std::int64_t, 1>& group, const ConstDoubles& limits, const ConstDoubles& scale,
                            const Array<std::int64_t, 2>& differing, const Array<std::int64_t, 2>& trees) {
        const std::size_t n_rows = evidence.shape(0), n_trees = evidence.shape(1), n_classes = differing.shape(0);
        differs.expect({n_rows, n_trees}, "differs");
        number.expect({n_rows}, "number");
        group.expect({n_rows}, "group");
        expect(scale.size() == 0 || scale.size() == n_trees, "scale is of another number of trees");
        differing.expect({n_classes, limits.size()}, "differing");
        trees.expect({n_classes, limits.size()}, "trees");
        for (const std::int64_t each : number.span()) expect(each >= 0 && static_cast<std::size_t>(each) <= n_trees, "a row asks more trees than there are");
        for (const std::int64_t each : group.span()) expect(static_cast<std::uint64_t>(each) < n_classes, "a row is of a class that is none");
        Released released;
        count_stops({evidence.matrix(), differs.matrix(), number.span(), group.span()}, limits.span(), scale.span(), differing.matrix(), trees.matrix());
    }, nb::arg("evidence"), nb::arg("differs"), nb::arg("number"), nb::arg("group"), nb::arg("limits"), nb::arg("scale"), nb::arg("differing"), nb::arg("trees"));
}

void bind_theory(nb::module_& m) {
    m.def("overtakes", &overtakes, nb::arg("n_trees"), nb::arg("a"), nb::arg("b"), nb::arg("wins_ties"));
    m.def("disagreement", [](Int n_trees, const ConstDoubles& leader, const Array<const std::int64_t, 1>& first, const ConstDoubles& rival,
                             const Array<const bool, 1>& wins_ties, const Array<double, 1>& out) {
        first.expect({leader.size() + 1}, "first");
        wins_ties.expect({rival.size()}, "wins_ties");
        out.expect({leader.size()}, "out");
        std::int64_t last = 0;
        for (const std::int64_t each : first.span()) {
            expect(last <= each && static_cast<std::size_t>(each) <= rival.size(), "the rivals of a row do not begin where those of another end");
            last = each;
        }
        Released released;
        disagreement(n_trees, leader.span(), first.span(), rival.span(), wins_ties.span(), out.span());
    }, nb::arg("n_trees"), nb::arg("leader"), nb::arg("first"), nb::arg("rival"), nb::arg("wins_ties"), nb::arg("out"));
}

void bind_bags(nb::module_& m) {
    m.def("draw_lightgbm", [](const Array<const std::uint32_t, 1>& first, const Array<const std::uint32_t, 1>& multiplier, const Array<const std::uint32_t, 1>& increment,
                              const Array<const std::int64_t, 1>& level, const Array<bool, 2>& inbag, std::size_t row, std::size_t tree) {
        increment.expect({multiplier.size()}, "increment");
        level.expect({first.size()}, "level");
        expect(row + first.size() <= inbag.shape(0) && tree + multiplier.size() <= inbag.shape(1), "inbag has no room for the draws");
        Released released;
        draw_lightgbm(first.span(), multiplier.span(), increment.span(), level.span(), inbag.data() + row * inbag.shape(1) + tree, inbag.shape(1));
    }, nb::arg("first"), nb::arg("multiplier"), nb::arg("increment"), nb::arg("level"), nb::arg("inbag"), nb::arg("row"), nb::arg("tree"));
    m.def("draw_xgboost", [](const Array<const std::uint64_t, 1>& step, const Array<const std::uint64_t, 1>& tree_seed, double level, const Array<bool, 2>& inbag) {
        inbag.expect({step.size(), tree_seed.size()}, "inbag");
        Released released;
        draw_xgboost(step.span(), tree_seed.span(), level, inbag.matrix());
    }, nb::arg("step"), nb::arg("tree_seed"), nb::arg("level"), nb::arg("inbag"));
}

template <class Real>
void bind_rows_of(nb::class_<Rows>& rows) {
    rows.def("add_scores", &add_scores<Real>, nb::arg("total"));
    rows.def("settle", &settle<Real>, nb::arg("stop"), nb::arg("total"), nb::arg("label"), nb::arg("asked"));
    rows.def("settle_numbers", &settle_numbers<Real>, nb::arg("stop"), nb::arg("total"), nb::arg("asked"));
    rows.def("decide", &decide<Real, std::int32_t>, nb::arg("alone"), nb::arg("stop"), nb::arg("counts"), nb::arg("label"), nb::arg("asked"));
    rows.def("decide", &decide<Real, double>, nb::arg("alone"), nb::arg("stop"), nb::arg("counts"), nb::arg("label"), nb::arg("asked"));
    rows.def("cast", &cast_votes<Real>, nb::arg("alone"), nb::arg("votes"));
}

Link link_of(int index) {
    expect(index >= 0 && index <= static_cast<int>(Link::SQUARE), "there is no such link");
    return static_cast<Link>(index);
}

void bind_forest(nb::module_& m) {
    nb::class_<ScoreStop>(m, "ScoreStop").def("__init__", [](ScoreStop* self, std::size_t first_look, std::size_t every, const ConstDoubles& low,
                                                             const ConstDoubles& high, const ConstDoubles& needed, const ConstDoubles& drift) {
        expect(every > 0 && needed.size() > 1 && low.size() == needed.size() && high.size() == needed.size(), "the stops are not of one number of trees");
        new (self) ScoreStop{first_look, every, copied(low), copied(high), copied(needed), copied(drift)};
    }, nb::arg("first_look"), nb::arg("every"), nb::arg("low"), nb::arg("high"), nb::arg("needed"), nb::arg("drift"));
    nb::class_<SpreadStop>(m, "SpreadStop").def("__init__", [](SpreadStop* self, double limit, std::size_t every, const ConstDoubles& pooled, double weight, int link,
                                                               double slope, double scale, const ConstDoubles& start) {
        expect(every > 0 && pooled.size() == start.size() && start.size() > 0, "the stops are not of one number of scores");
        new (self) SpreadStop{limit, every, copied(pooled), weight, link_of(link), slope, scale, copied(start)};
    }, nb::arg("limit"), nb::arg("every"), nb::arg("pooled"), nb::arg("weight"), nb::arg("link"), nb::arg("slope"), nb::arg("scale"), nb::arg("start"));
    nb::class_<VoteStop>(m, "VoteStop")
        .def_static("never", [] { return VoteStop(NeverStops{}); })
        .def_static("binary", [](const ConstBounds& lower, const ConstBounds& upper, std::size_t every) {
            expect(every > 0, "every must be at least 1");
            return VoteStop(BinaryStops{every, copied(lower), copied(upper)});
        }, nb::arg("lower"), nb::arg("upper"), nb::arg("every"))
        .def_static("ternary", [](const Array<const std::int8_t, 1>& decision, std::size_t every) {
            expect(every > 0, "every must be at least 1");
            return VoteStop(TernaryStops{every, copied(decision)});
        }, nb::arg("decision"), nb::arg("every"))
        .def_static("leaders", [](const ConstBounds& upper, std::size_t every) {
            expect(every > 0, "every must be at least 1");
            return VoteStop(LeaderStops{every, copied(upper)});
        }, nb::arg("upper"), nb::arg("every"))
        .def_static("weighted", [](const ConstDoubles& weight, const ConstDoubles& needed) { return VoteStop(WeightedStops{copied(weight), copied(needed)}); },
                    nb::arg("weight"), nb::arg("needed"));
    nb::class_<Predicting>(m, "Predicting")
        .def("__init__", [](Predicting* self, double divisor, double slope, int link) { new (self) Predicting{divisor, slope, link_of(link)}; },
             nb::arg("divisor"), nb::arg("slope"), nb::arg("link"))
        .def("predict", &predict_sums<float>, nb::arg("total"), nb::arg("out"))
        .def("predict", &predict_sums<double>, nb::arg("total"), nb::arg("out"));
    nb::class_<Rows> rows(m, "Rows");
    rows.def("__len__", &Rows::n_rows)
        .def("reach", &reach, nb::arg("index"), nb::arg("leaf"))
        .def("take", [](const Rows& self, const Array<const std::int64_t, 1>& index) { return self.taken(index.span()); }, nb::arg("index"));
    bind_rows_of<float>(rows);
    bind_rows_of<double>(rows);
    nb::class_<Forest>(m, "Forest")
        .def(nb::new_(&make_forest), nb::arg("nodes"), nb::arg("value"), nb::arg("vote"), nb::arg("tree_start"), nb::arg("bit_start"), nb::arg("bits"), nb::arg("feature"),
             nb::arg("cut_start"), nb::arg("cuts"), nb::arg("start"), nb::arg("missing"), nb::arg("base"), nb::arg("n_outputs"), nb::arg("n_features"),
             nb::arg("single_precision"), nb::arg("missing_value"), nb::arg("zero_within"), nb::arg("lowest_category"), nb::arg("absent_is_missing"))
        .def_prop_ro("nodes", &views_of_nodes, nb::sig("def nodes(self) -> tuple[NDArray[typing.Any], ...]"))
        .def_prop_ro("columns", &views_of_columns, nb::sig("def columns(self) -> tuple[NDArray[typing.Any], ...]"))
        .def("rows", &quantised, nb::arg("X"))
        .def("sparse_rows", &quantised_sparse, nb::arg("data"), nb::arg("index"), nb::arg("start"));
    nb::class_<Few>(m, "FewRows")
        .def(nb::init<ForestPointer, const ScoreStop&, const Predicting&, const ConstDoubles&, double, bool, bool>(), nb::arg("forest"), nb::arg("stop"), nb::arg("predicting"),
             nb::arg("start"), nb::arg("threshold"), nb::arg("refuses_infinite"), nb::arg("refuses_missing"))
        .def("labels", &Few::labels, nb::arg("X"), nb::arg("answer"))
        .def("predict", &Few::predict, nb::arg("X"), nb::arg("out"));
}

}  // namespace rfsize

NB_MODULE(_core, m) {
    using namespace rfsize;
    m.doc() = "The loops over rows and trees, compiled.";
    m.def("processor", [] { return primitives().level; }, "The level of processors whose loops run.");
    primitives();
    bind_forest(m);
    bind_urn(m);
    bind_counting(m);
    bind_leads(m);
    bind_theory(m);
    bind_bags(m);
}
