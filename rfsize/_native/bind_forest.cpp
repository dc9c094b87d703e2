// Forests, rows that go down their trees, and where they stop, as Python sees them.
#include <nanobind/stl/shared_ptr.h>

#include "bindings.hpp"
#include "few.hpp"
#include "stop_spread.hpp"
#include "stop_votes.hpp"

namespace rfsize {

namespace {

using ForestPointer = std::shared_ptr<const Forest>;

ForestPointer make_forest(const Array<const std::uint64_t, 1>& nodes, nb::handle value,
                          const Array<const std::uint16_t, 1>& vote, const Array<const std::int64_t, 1>& tree_start,
                          const Array<const std::int64_t, 1>& bit_start, const Array<const std::uint32_t, 1>& bits,
                          const Array<const std::int64_t, 1>& feature, const Array<const std::int64_t, 1>& cut_start,
                          const Array<const double, 1>& cuts, const Array<const std::int64_t, 1>& start,
                          const Array<const std::uint8_t, 1>& missing, const Array<const std::int64_t, 1>& base,
                          std::size_t n_outputs, std::size_t n_features, bool single_precision, double missing_value,
                          double zero_within, double lowest_category, bool absent_is_missing) {
    Array<const float, 2> floats;
    Array<const double, 2> doubles;
    const bool is_single = floats.hold(value);
    if (!is_single && !doubles.hold(value)) throw nb::type_error("value must be a matrix of float32 or float64");
    Nodes of_trees{copied(nodes),
                   {},
                   {},
                   is_single ? floats.shape(1) : doubles.shape(1),
                   copied(vote),
                   copied(tree_start),
                   copied(bit_start),
                   copied(bits)};
    if (is_single)
        of_trees.floats.assign(floats.data(), floats.data() + floats.size());
    else
        of_trees.doubles.assign(doubles.data(), doubles.data() + doubles.size());
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
    const nb::object value =
        nodes.floats.empty() ? view(self, nodes.doubles, nodes.width) : view(self, nodes.floats, nodes.width);
    return nb::make_tuple(view(self, nodes.nodes), value, view(self, nodes.vote), view(self, nodes.tree_start),
                          view(self, nodes.bit_start), view(self, nodes.bits));
}

nb::tuple views_of_columns(nb::handle self) {
    const Columns& columns = nb::cast<const Forest&>(self).columns();
    return nb::make_tuple(view(self, columns.feature), view(self, columns.cut_start), view(self, columns.cuts),
                          view(self, columns.start), view(self, columns.missing), view(self, columns.base));
}

// Rows as the trees of one forest compare them.
class Rows {
public:
    Rows(ForestPointer forest, std::size_t n_rows)
        : forest_(std::move(forest)),
          n_rows_(n_rows),
          q_(std::make_unique_for_overwrite<std::uint16_t[]>(n_rows * forest_->n_columns())) {}

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

Rows quantised(const ForestPointer& forest, const AnyMatrix& X) {
    expect(X.columns() >= forest->n_features(), "the rows have fewer columns than the forest was trained on");
    Released released;
    Rows found(forest, X.rows());
    if (X.is_single())
        forest->quantise(X.strided<float>(), found.q());
    else
        forest->quantise(X.strided<double>(), found.q());
    return found;
}

Rows quantised_sparse(const ForestPointer& forest, const Array<const double, 1>& data,
                      const Array<const std::int64_t, 1>& index, const Array<const std::int64_t, 1>& start) {
    expect(start.size() > 0 && data.size() == index.size(),
           "the sparse rows are damaged: values and columns are not alike in number");
    std::int64_t last = 0;
    for (const std::int64_t each : start.span()) {
        expect(last <= each && each <= static_cast<std::int64_t>(data.size()),
               "the sparse rows are damaged: a row does not begin where another ends");
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
    expect(stop.n_members() == forest.n_members() && stop.drift.size() == forest.n_scores(),
           "the stops are for another forest");
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
void settle_numbers(const Rows& rows, const SpreadStop& stop, const Array<Real, 2>& total,
                    const Array<std::int64_t, 1>& asked) {
    expect_totals(rows, total);
    expect(stop.start.size() == rows.forest().n_scores(), "the stops are for another forest");
    asked.expect({rows.n_rows()}, "asked");
    Released released;
    BySpread<Real> rule(rows.forest(), stop, total.matrix(), asked.data(), rows.most());
    rows.run(rule);
}

template <class Real>
TreeAlone<Real> alone_of(const Forest& forest, const Array<const Real, 1>& alone) {
    alone.expect({forest.n_outputs() + 1}, "alone");
    expect(forest.is_single() == std::is_same_v<Real, float>, "alone is of another precision than the forest");
    expect(forest.n_outputs() > 1 || forest.n_voted() > 0, "the leaves of the forest cast no votes");
    return {alone.data()[0], {alone.data() + 1, alone.data() + alone.size()}};
}

// Raise where stops are not of as many members, or of as many classes.
struct CheckedStop {
    std::size_t n_members, n_classes;

    void sizes(const std::vector<std::int32_t>& bounds) const {
        expect(bounds.size() == n_members + 1, "the stops are for another number of trees");
    }
    void operator()(const NeverStops&) const {}
    void operator()(const BinaryStops& stop) const {
        sizes(stop.lower);
        sizes(stop.upper);
        expect(n_classes == 2, "the stops are for two classes");
    }
    void operator()(const TernaryStops& stop) const {
        expect(stop.decision.size() == ternary_index(n_members + 1, 0, 0) && n_classes == 3,
               "the stops are for another number of trees, or of classes");
        for (const std::int8_t each : stop.decision) expect(each < 3, "the stops answer with a class that is none");
    }
    void operator()(const LeaderStops& stop) const { sizes(stop.upper); }
    void operator()(const WeightedStops& stop) const {
        expect(stop.weight.size() == n_members && stop.needed.size() == n_members + 1,
               "the stops are for another number of members");
    }
};

template <class Real, class Count>
void decide(const Rows& rows, const Array<const Real, 1>& alone, const VoteStop& stop, const Array<Count, 2>& counts,
            const Array<std::int64_t, 1>& label, const Array<std::int64_t, 1>& asked) {
    const Forest& forest = rows.forest();
    const TreeAlone<Real> of = alone_of(forest, alone);
    const std::size_t n_classes = counts.shape(1);
    counts.expect({rows.n_rows(), n_classes}, "counts");
    expect(n_classes >= 2 && n_classes >= (forest.n_outputs() > 1 ? forest.n_outputs() : forest.n_voted()),
           "counts have fewer classes than the trees vote for");
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
    const TreeAlone<Real> of = alone_of(rows.forest(), alone);
    votes.expect({rows.n_rows(), rows.forest().n_members()}, "votes");
    Released released;
    EveryVote<Real> rule(rows.forest(), of, votes.matrix(), rows.most());
    rows.run(rule);
}

template <class Real>
void predict_sums(const Predicting& predicting, const Array<Real, 2>& total, const Array<double, 2>& out) {
    out.expect({total.shape(0), out.shape(1)}, "out");
    expect(out.shape(1) == total.shape(1) || (total.shape(1) == 1 && out.shape(1) == 2),
           "out has not one column for each class");
    Released released;
    predict_from(predicting, total.matrix(), out.matrix());
}

class Few {
public:
    Few(ForestPointer forest, const ScoreStop& stop, const Predicting& predicting, const Array<const double, 1>& start,
        double threshold, bool refuses_infinite, bool refuses_missing)
        : forest_(std::move(forest)),
          few_{*forest_, stop, predicting, threshold, refuses_infinite, refuses_missing},
          floats_(start.data(), start.data() + start.size()),
          doubles_(start.data(), start.data() + start.size()) {
        start.expect({forest_->n_scores()}, "start");
        expect_fit(*forest_, stop);
    }

    bool labels(const Array<const double, 2>& X, const Array<std::int64_t, 2>& answer) const {
        expect_columns(X);
        answer.expect({2, X.shape(0)}, "answer");
        Released released;
        if (!few_.takes(X.matrix())) return false;
        const Answers answers{answer.data(), answer.data() + X.shape(0)};
        if (forest_->is_single())
            few_.labels(X.matrix(), floats_, answers);
        else
            few_.labels(X.matrix(), doubles_, answers);
        return true;
    }

    bool predict(const Array<const double, 2>& X, const Array<double, 2>& out) const {
        expect_columns(X);
        const std::size_t n_scores = forest_->n_scores();
        expect(out.shape(0) == X.shape(0) && (out.shape(1) == n_scores || (n_scores == 1 && out.shape(1) == 2)),
               "out has another shape than is predicted");
        Released released;
        if (!few_.takes(X.matrix())) return false;
        if (forest_->is_single())
            few_.predict(X.matrix(), floats_, out.matrix());
        else
            few_.predict(X.matrix(), doubles_, out.matrix());
        return true;
    }

private:
    ForestPointer forest_;
    FewRows few_;
    std::vector<float> floats_;
    std::vector<double> doubles_;

    void expect_columns(const Array<const double, 2>& X) const {
        expect(X.shape(1) >= forest_->n_features(), "the rows have fewer columns than the forest was trained on");
    }
};

template <class Real>
void bind_rows_of(nb::class_<Rows>& rows) {
    rows.def("add_scores", &add_scores<Real>, nb::arg("total"));
    rows.def("settle", &settle<Real>, nb::arg("stop"), nb::arg("total"), nb::arg("label"), nb::arg("asked"));
    rows.def("settle_numbers", &settle_numbers<Real>, nb::arg("stop"), nb::arg("total"), nb::arg("asked"));
    rows.def("decide", &decide<Real, std::int32_t>, nb::arg("alone"), nb::arg("stop"), nb::arg("counts"),
             nb::arg("label"), nb::arg("asked"));
    rows.def("decide", &decide<Real, double>, nb::arg("alone"), nb::arg("stop"), nb::arg("counts"), nb::arg("label"),
             nb::arg("asked"));
    rows.def("cast", &cast_votes<Real>, nb::arg("alone"), nb::arg("votes"));
}

Link link_of(int index) {
    expect(index >= 0 && index <= static_cast<int>(Link::SQUARE), "there is no such link");
    return static_cast<Link>(index);
}

}  // namespace

void bind_forest(nb::module_& m) {
    nb::class_<ScoreStop>(m, "ScoreStop")
        .def(
            "__init__",
            [](ScoreStop* self, std::size_t first_look, std::size_t every, const ConstDoubles& low,
               const ConstDoubles& high, const ConstDoubles& needed, const ConstDoubles& drift) {
                expect(every > 0 && needed.size() > 1 && low.size() == needed.size() && high.size() == needed.size(),
                       "the stops are not of one number of trees");
                new (self) ScoreStop{first_look, every, copied(low), copied(high), copied(needed), copied(drift)};
            },
            nb::arg("first_look"), nb::arg("every"), nb::arg("low"), nb::arg("high"), nb::arg("needed"),
            nb::arg("drift"));
    nb::class_<SpreadStop>(m, "SpreadStop")
        .def(
            "__init__",
            [](SpreadStop* self, double limit, std::size_t every, const ConstDoubles& pooled, double weight, int link,
               double slope, double scale, const ConstDoubles& start) {
                expect(every > 0 && pooled.size() == start.size() && start.size() > 0,
                       "the stops are not of one number of scores");
                new (self) SpreadStop{limit, every, copied(pooled), weight, link_of(link), slope, scale, copied(start)};
            },
            nb::arg("limit"), nb::arg("every"), nb::arg("pooled"), nb::arg("weight"), nb::arg("link"), nb::arg("slope"),
            nb::arg("scale"), nb::arg("start"));
    nb::class_<VoteStop>(m, "VoteStop")
        .def_static("never", [] { return VoteStop(NeverStops{}); })
        .def_static(
            "binary",
            [](const ConstBounds& lower, const ConstBounds& upper, std::size_t every) {
                expect(every > 0, "every must be at least 1");
                return VoteStop(BinaryStops{every, copied(lower), copied(upper)});
            },
            nb::arg("lower"), nb::arg("upper"), nb::arg("every"))
        .def_static(
            "ternary",
            [](const Array<const std::int8_t, 1>& decision, std::size_t every) {
                expect(every > 0, "every must be at least 1");
                return VoteStop(TernaryStops{every, copied(decision)});
            },
            nb::arg("decision"), nb::arg("every"))
        .def_static(
            "leaders",
            [](const ConstBounds& upper, std::size_t every) {
                expect(every > 0, "every must be at least 1");
                return VoteStop(LeaderStops{every, copied(upper)});
            },
            nb::arg("upper"), nb::arg("every"))
        .def_static(
            "weighted",
            [](const ConstDoubles& weight, const ConstDoubles& needed) {
                return VoteStop(WeightedStops{copied(weight), copied(needed)});
            },
            nb::arg("weight"), nb::arg("needed"));
    nb::class_<Predicting>(m, "Predicting")
        .def(
            "__init__",
            [](Predicting* self, double divisor, double slope, int link) {
                new (self) Predicting{divisor, slope, link_of(link)};
            },
            nb::arg("divisor"), nb::arg("slope"), nb::arg("link"))
        .def("predict", &predict_sums<float>, nb::arg("total"), nb::arg("out"))
        .def("predict", &predict_sums<double>, nb::arg("total"), nb::arg("out"));
    nb::class_<Rows> rows(m, "Rows");
    rows.def("__len__", &Rows::n_rows)
        .def("reach", &reach, nb::arg("index"), nb::arg("leaf"))
        .def(
            "take",
            [](const Rows& self, const Array<const std::int64_t, 1>& index) { return self.taken(index.span()); },
            nb::arg("index"));
    bind_rows_of<float>(rows);
    bind_rows_of<double>(rows);
    nb::class_<Forest>(m, "Forest")
        .def(nb::new_(&make_forest), nb::arg("nodes"), nb::arg("value"), nb::arg("vote"), nb::arg("tree_start"),
             nb::arg("bit_start"), nb::arg("bits"), nb::arg("feature"), nb::arg("cut_start"), nb::arg("cuts"),
             nb::arg("start"), nb::arg("missing"), nb::arg("base"), nb::arg("n_outputs"), nb::arg("n_features"),
             nb::arg("single_precision"), nb::arg("missing_value"), nb::arg("zero_within"), nb::arg("lowest_category"),
             nb::arg("absent_is_missing"))
        .def_prop_ro("nodes", &views_of_nodes, nb::sig("def nodes(self) -> tuple[NDArray[typing.Any], ...]"))
        .def_prop_ro("columns", &views_of_columns, nb::sig("def columns(self) -> tuple[NDArray[typing.Any], ...]"))
        .def("rows", &quantised, nb::arg("X"))
        .def("sparse_rows", &quantised_sparse, nb::arg("data"), nb::arg("index"), nb::arg("start"));
    nb::class_<Few>(m, "FewRows")
        .def(nb::init<ForestPointer, const ScoreStop&, const Predicting&, const ConstDoubles&, double, bool, bool>(),
             nb::arg("forest"), nb::arg("stop"), nb::arg("predicting"), nb::arg("start"), nb::arg("threshold"),
             nb::arg("refuses_infinite"), nb::arg("refuses_missing"))
        .def("labels", &Few::labels, nb::arg("X"), nb::arg("answer"))
        .def("predict", &Few::predict, nb::arg("X"), nb::arg("out"));
}

}  // namespace rfsize
