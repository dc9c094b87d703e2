// Forests, rows that go down their trees, and where they stop, as Python sees them.
#include <nanobind/stl/shared_ptr.h>

#include "bind_stops.hpp"
#include "few.hpp"

namespace rfsize {

namespace {

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
void add_scores(const Rows& rows, const Array<Real, 2>& total) {
    expect_totals(rows, total);
    Released released;
    AllScores<Real> rule(rows.forest(), total.matrix(), rows.most());
    rows.run(rule);
}

template <class Real>
void count_all(const Rows& rows, const Array<const Real, 1>& alone, const Array<std::int32_t, 2>& counts) {
    const TreeAlone<Real> of = alone_of(rows.forest(), alone);
    counts.expect({rows.n_rows(), checked_classes(rows.forest(), counts.shape(1))}, "counts");
    Released released;
    ByVotes<Real, false> rule(rows.forest(), of, nullptr, counts.matrix(), {}, rows.most());
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
    Few(ForestPointer forest, const Predicting& of_labels, const Predicting& predicting,
        const Array<const double, 1>& start, double threshold, bool refuses_infinite, bool refuses_missing)
        : forest_(std::move(forest)),
          few_{*forest_, of_labels, predicting, threshold, refuses_infinite, refuses_missing},
          floats_(start.data(), start.data() + start.size()),
          doubles_(start.data(), start.data() + start.size()) {
        start.expect({forest_->n_scores()}, "start");
    }

    bool labels(const ScoreStop& stop, const Array<const double, 2>& X, const Array<std::int64_t, 2>& answer) const {
        expect_fit(*forest_, stop);
        expect_columns(X);
        answer.expect({2, X.shape(0)}, "answer");
        Released released;
        if (!few_.takes(X.matrix())) return false;
        const Answers answers{answer.data(), answer.data() + X.shape(0)};
        if (forest_->is_single())
            few_.labels(stop, X.matrix(), floats_, answers);
        else
            few_.labels(stop, X.matrix(), doubles_, answers);
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
    rows.def("count", &count_all<Real>, nb::arg("alone"), nb::arg("counts"));
}

}  // namespace

void bind_forest(nb::module_& m) {
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
    rows.def("__len__", &Rows::n_rows).def("reach", &reach, nb::arg("index"), nb::arg("leaf"));
    bind_rows_of<float>(rows);
    bind_rows_of<double>(rows);
    nb::class_<Forest>(m, "Forest")
        .def(nb::new_(&make_forest), nb::arg("nodes"), nb::arg("value"), nb::arg("vote"), nb::arg("tree_start"),
             nb::arg("bit_start"), nb::arg("bits"), nb::arg("feature"), nb::arg("cut_start"), nb::arg("cuts"),
             nb::arg("start"), nb::arg("missing"), nb::arg("base"), nb::arg("n_outputs"), nb::arg("n_features"),
             nb::arg("single_precision"), nb::arg("missing_value"), nb::arg("zero_within"), nb::arg("lowest_category"),
             nb::arg("absent_is_missing"))
        .def_prop_ro("nodes", &views_of_nodes,
                     nb::sig("def nodes(self) -> tuple[numpy.typing.NDArray[typing.Any], ...]"))
        .def_prop_ro("columns", &views_of_columns,
                     nb::sig("def columns(self) -> tuple[numpy.typing.NDArray[typing.Any], ...]"))
        .def("rows", &quantised, nb::arg("X"))
        .def("sparse_rows", &quantised_sparse, nb::arg("data"), nb::arg("index"), nb::arg("start"));
    nb::class_<Few>(m, "FewRows")
        .def(nb::init<ForestPointer, const Predicting&, const Predicting&, const ConstDoubles&, double, bool, bool>(),
             nb::arg("forest"), nb::arg("of_labels"), nb::arg("predicting"), nb::arg("start"), nb::arg("threshold"),
             nb::arg("refuses_infinite"), nb::arg("refuses_missing"))
        .def("labels", &Few::labels, nb::arg("stop"), nb::arg("X"), nb::arg("answer"))
        .def("predict", &Few::predict, nb::arg("X"), nb::arg("out"));
}

}  // namespace rfsize
