// Forests, rows that go down their trees, and where they stop, as Python sees them.
#include <nanobind/stl/shared_ptr.h>

#include <utility>
#include <variant>

#include "bind_stops.hpp"
#include "few.hpp"

namespace rfsize {

namespace {

// The numbers of an array, which the caller keeps alive.
template <class T>
View<T> view_of(nb::handle array, const char* name) {
    Array<const T, 1> held;
    if (!held.hold(array)) throw nb::type_error((std::string(name) + " is no list of numbers of its type").c_str());
    return held.span();
}

using Tuple = nb::typed<nb::tuple, nb::object, nb::ellipsis>;

ForestPointer make_forest(const Tuple& nodes, const Tuple& columns, std::size_t n_outputs, std::size_t n_features,
                          bool single_precision, double missing_value, double zero_within, double lowest_category,
                          bool absent_is_missing) {
    expect(nodes.size() == 6 && columns.size() == 6, "there are not as many arrays as a forest has");
    Nodes of_trees;
    of_trees.nodes = view_of<std::uint64_t>(nodes[0], "nodes");
    Array<const float, 2> floats;
    Array<const double, 2> doubles;
    if (floats.hold(nodes[1])) {
        of_trees.floats = floats.span();
        of_trees.width = floats.shape(1);
    } else if (doubles.hold(nodes[1])) {
        of_trees.doubles = doubles.span();
        of_trees.width = doubles.shape(1);
    } else {
        throw nb::type_error("value must be a matrix of float32 or float64");
    }
    of_trees.vote = view_of<std::uint16_t>(nodes[2], "vote");
    of_trees.tree_start = view_of<std::int64_t>(nodes[3], "tree_start");
    of_trees.bit_start = view_of<std::int64_t>(nodes[4], "bit_start");
    of_trees.bits = view_of<std::uint32_t>(nodes[5], "bits");
    const Columns of_columns{
        view_of<std::int64_t>(columns[0], "feature"), view_of<std::int64_t>(columns[1], "cut_start"),
        view_of<double>(columns[2], "cuts"),          view_of<std::int64_t>(columns[3], "start"),
        view_of<std::uint8_t>(columns[4], "missing"), view_of<std::int64_t>(columns[5], "base")};
    const Reading reading{single_precision, missing_value, zero_within, lowest_category, absent_is_missing};
    // The last reference may end in a thread that has released the interpreter.
    const auto release = [](std::pair<Tuple, Tuple>* arrays) {
        const nb::gil_scoped_acquire acquired;
        delete arrays;
    };
    std::shared_ptr<const void> owner(new std::pair(nodes, columns), release);
    return std::make_shared<const Forest>(of_trees, of_columns, n_outputs, n_features, reading, std::move(owner));
}

// The nodes of trees from bits that tell leaves, and the column and the rank of each split, byte by byte: the first
// bytes of all, then the second ones. Fills nodes, and the places of leaves.
void unpack_nodes(const Array<const std::uint8_t, 1>& is_leaf, const Array<const std::uint8_t, 1>& column,
                  const Array<const std::uint8_t, 1>& rank, const Array<const std::uint8_t, 1>& missing,
                  const ConstIndices& tree_start, const Array<std::uint64_t, 1>& nodes,
                  const Array<std::int64_t, 1>& leaf) {
    const std::size_t n = nodes.size(), n_leaves = leaf.size(), n_splits = n - n_leaves;
    const std::uint8_t* bits = is_leaf.data();
    const auto is_set = [bits](std::size_t place) {
        return static_cast<std::size_t>(bits[place / 8] >> (7 - place % 8)) & 1;
    };
    expect(n_leaves <= n && 8 * is_leaf.size() >= n && column.size() == 4 * n_splits && rank.size() == 2 * n_splits,
           "not one column for each split");
    std::size_t counted = 0;
    for (std::size_t place = 0; place < n; ++place) counted += is_set(place);
    expect(counted == n_leaves, "not as many leaves as scores");
    std::vector<std::uint64_t> tests(n_splits + 1);
    for (std::size_t split = 0; split < n_splits; ++split) {
        std::uint64_t of_column = 0, of_rank = 0;
        for (std::size_t byte = 0; byte < 4; ++byte)
            of_column |= std::uint64_t{column.data()[byte * n_splits + split]} << (8 * byte);
        for (std::size_t byte = 0; byte < 2; ++byte)
            of_rank |= std::uint64_t{rank.data()[byte * n_splits + split]} << (8 * byte);
        expect(of_column < missing.size(), "a split tests a column that rows do not have");
        const bool is_category = missing.data()[of_column] == CATEGORY;
        tests[split] = of_column << COLUMN_SHIFT | of_rank | (is_category ? CATEGORICAL : 0);
    }
    const std::span<const std::int64_t> starts = tree_start.span();
    const std::span<std::uint64_t> words = nodes.span();
    std::vector<std::int64_t> places(n_leaves + 1);
    std::size_t split = 0, n_found = 0, tree = 0;
    for (std::size_t place = 0; place < n; ++place) {  // without a branch: nobody foresees where leaves are
        while (tree + 1 < starts.size() && starts[tree + 1] <= static_cast<std::int64_t>(place)) ++tree;
        const std::size_t is = is_set(place);
        // Breadth first: the children of the k-th split of a tree are its nodes 2k + 1 and 2k + 2, and each tree before
        // has one leaf more than splits.
        const std::uint64_t left = is ? place : 2 * split + tree + 1, test = is ? RANK_MASK : tests[split];
        words[place] = left << LEFT_SHIFT | test;
        places[n_found] = static_cast<std::int64_t>(place);
        n_found += is;
        split += 1 - is;
    }
    std::copy_n(places.begin(), n_leaves, leaf.data());
}

Rows quantised(const ForestPointer& forest, const AnyMatrix& X) {
    expect(X.columns() >= forest->n_features(), "the rows have fewer columns than the forest was trained on");
    Released released;
    Rows rows(forest, X.rows());
    if (X.is_single())
        forest->quantise(X.strided<float>(), rows.q());
    else
        forest->quantise(X.strided<double>(), rows.q());
    return rows;
}

// Add a column that is of one of these types.
template <class... T>
bool add_column(const Buffer& column, Table& table) {
    const Py_buffer& view = column.view();
    return ((column.is<T>() && (table.add<T>(static_cast<const char*>(view.buf), view.strides[0]), true)) || ...);
}

// Rows of which each column is an array of its own.
Rows quantised_columns(const ForestPointer& forest, const nb::typed<nb::sequence, nb::object>& columns) {
    expect(nb::len(columns) >= forest->n_features() && nb::len(columns) > 0,
           "the rows have fewer columns than the forest was trained on");
    std::vector<std::unique_ptr<Buffer>> held;
    Table table(nb::len(nb::object(columns[0])));
    for (const nb::handle column : columns) {
        const Buffer& buffer = *held.emplace_back(std::make_unique<Buffer>());
        expect(held.back()->hold(column, PyBUF_STRIDED_RO) && buffer.view().ndim == 1,
               "a column is no list of numbers");
        expect(static_cast<std::size_t>(buffer.view().shape[0]) == table.rows,
               "a column has other rows than the first");
        const bool is_added = add_column<double, float, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t,
                                         std::int32_t, std::uint32_t>(buffer, table);
        expect(is_added, "a column is of a type that double precision does not hold");
    }
    Released released;
    Rows rows(forest, table.rows);
    forest->quantise(table, rows.q());
    return rows;
}

Rows quantised_sparse(const ForestPointer& forest, const Array<const double, 1>& data, const ConstIndices& index,
                      const ConstIndices& start) {
    expect(start.size() > 0 && data.size() == index.size(),
           "the sparse rows are damaged: values and columns are not alike in number");
    std::int64_t last = 0;
    for (const std::int64_t first : start.span()) {
        expect(last <= first && first <= static_cast<std::int64_t>(data.size()),
               "the sparse rows are damaged: a row does not begin where another ends");
        last = first;
    }
    Released released;
    Rows rows(forest, start.size() - 1);
    forest->quantise_sparse(data.span(), index.span(), start.span(), rows.q());
    return rows;
}

void reach(const Rows& rows, const ConstIndices& index, const Array<std::int64_t, 2>& leaf) {
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
    Sums<Real> rule(rows.forest(), total.matrix(), rows.most());
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

// What NumPy gives to write to.
template <class T>
T* data_of(const nb::object& array) {
    Buffer buffer;
    if (!buffer.hold(array, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) || !buffer.is<T>())
        throw std::runtime_error("NumPy gives another array than it was asked for");
    return static_cast<T*>(buffer.view().buf);
}

// Predicts a few rows of plain arrays in one call: labels where there is a rule of stopping, else numbers.
class FewRows {
public:
    FewRows(ForestPointer forest, const Predicting& predicting, const ConstDoubles& start, double threshold,
            bool refuses_infinite, bool refuses_missing, std::size_t most_rows, std::size_t n_columns,
            nb::object finish, nb::object rule)
        : forest_(std::move(forest)),
          label_of_{predicting, threshold},
          refused_{refuses_infinite, refuses_missing},
          most_rows_(most_rows),
          n_columns_(n_columns),
          finish_(std::move(finish)),
          rule_(std::move(rule)) {
        const nb::module_ numpy = nb::module_::import_("numpy");
        array_ = numpy.attr("ndarray");
        empty_ = numpy.attr("empty");
        int_ = numpy.attr("dtype")("int64");
        real_ = numpy.attr("dtype")(forest_->is_single() ? "float32" : "float64");
        start.expect({forest_->n_scores()}, "start");
        if (forest_->is_single())
            start_ = std::vector<float>(start.data(), start.data() + start.size());
        else
            start_ = copied(start);
        if (nb::isinstance<ScoreStop>(rule_)) {
            by_scores_ = nb::cast<const ScoreStop*>(rule_);
            expect_fit(*forest_, *by_scores_);
        } else if (!rule_.is_none()) {
            by_votes_ = nb::cast<const VoteStop*>(rule_);
            expect_fit(*forest_, *by_votes_, n_columns);
        } else {
            expect(n_columns == start.size() || (start.size() == 1 && n_columns == 2),
                   "there is not one column for each class");
        }
    }

    // What is predicted, with how many trees predicted each row if that is wanted; None if the rows need more checks.
    // A frame may have held whole numbers that double precision rounds, and some frameworks round in another way.
    nb::object predict(nb::handle X, bool return_trees, bool of_frame) const {
        AnyMatrix rows;
        if (!X.type().is(array_) || !rows.hold(X) || rows.columns() != forest_->n_features() || rows.rows() == 0 ||
            rows.rows() > most_rows_)
            return nb::none();
        const auto from = [&](const auto& start) {
            return rows.is_single() ? predicted(rows.strided<float>(), start, return_trees, of_frame)
                                    : predicted(rows.strided<double>(), start, return_trees, of_frame);
        };
        return std::visit(from, start_);
    }

private:
    ForestPointer forest_;
    LabelOfSums label_of_;
    Refused refused_;
    std::size_t most_rows_, n_columns_;
    nb::object finish_, rule_, array_, empty_, int_, real_;
    const ScoreStop* by_scores_ = nullptr;
    const VoteStop* by_votes_ = nullptr;
    std::variant<std::vector<float>, std::vector<double>> start_;

    template <class T, class Real>
    nb::object predicted(const Strided<T>& X, const std::vector<Real>& start, bool return_trees, bool of_frame) const {
        const bool is_label = by_scores_ != nullptr || by_votes_ != nullptr;
        const Temporary<std::int64_t> unwanted(return_trees ? 0 : X.rows);
        nb::object trees = return_trees ? empty_(nb::make_tuple(X.rows), int_) : nb::none();
        nb::object out = n_columns_ == 1 || is_label ? empty_(nb::make_tuple(X.rows), is_label ? int_ : real_)
                                                     : empty_(nb::make_tuple(X.rows, n_columns_), real_);
        std::int64_t* n_used = return_trees ? data_of<std::int64_t>(trees) : unwanted.data();
        bool is_taken = false;
        if (is_label) {
            const Answers answers{data_of<std::int64_t>(out), n_used};
            Released released;
            is_taken = refused_.takes(X, of_frame);
            if (is_taken) label(X, start, answers);
        } else {
            const Matrix<Real> numbers{data_of<Real>(out), X.rows, n_columns_};
            Released released;
            std::fill_n(n_used, X.rows, static_cast<std::int64_t>(forest_->n_members()));
            is_taken = refused_.takes(X, of_frame);
            if (is_taken) number(X, start, numbers);
        }
        if (!is_taken) return nb::none();
        if (!finish_.is_none()) out = finish_(out);
        return return_trees ? nb::object(nb::make_tuple(out, trees)) : out;
    }

    template <class T, class Real>
    void label(const Strided<T>& X, const std::vector<Real>& start, const Answers& answers) const {
        std::fill_n(answers.label, X.rows, std::int64_t{-1});
        std::fill_n(answers.n_used, X.rows, static_cast<std::int64_t>(forest_->n_members()));
        const Temporary<std::uint16_t> q(X.rows * forest_->n_columns());
        forest_->quantise(X, q.data());
        const Rows rows(forest_, X.rows, q.data());
        if (by_scores_ != nullptr) {
            label_few(rows, *by_scores_, label_of_, start, answers);
            return;
        }
        const double scale = static_cast<double>(forest_->n_members()) / label_of_.predicting.divisor;
        const TreeAlone<Real> alone{static_cast<Real>(scale), start};
        settle(*by_votes_, rows, alone, n_columns_, answers);
    }

    template <class T, class Real>
    void number(const Strided<T>& X, const std::vector<Real>& start, const Matrix<Real>& out) const {
        const Temporary<std::uint16_t> q(X.rows * forest_->n_columns());
        forest_->quantise(X, q.data());
        predict_few(Rows(forest_, X.rows, q.data()), label_of_.predicting, start, out);
    }
};

}  // namespace

void bind_forest(nb::module_& m) {
    m.def("unpack_nodes", &unpack_nodes, nb::arg("is_leaf"), nb::arg("column"), nb::arg("rank"), nb::arg("missing"),
          nb::arg("tree_start"), nb::arg("nodes"), nb::arg("leaf"));
    nb::class_<Predicting>(m, "Predicting")
        .def(
            "__init__",
            [](Predicting* self, double divisor, double slope, int link) {
                new (self) Predicting{divisor, slope, link_of(link)};
            },
            nb::arg("divisor"), nb::arg("slope"), nb::arg("link"))
        .def("predict", &predict_sums<float>, nb::arg("total"), nb::arg("out"))
        .def("predict", &predict_sums<double>, nb::arg("total"), nb::arg("out"));
    nb::class_<Rows>(m, "Rows")
        .def("__len__", &Rows::n_rows)
        .def("reach", &reach, nb::arg("index"), nb::arg("leaf"))
        .def("add_scores", &add_scores<float>, nb::arg("total"))
        .def("add_scores", &add_scores<double>, nb::arg("total"))
        .def("count", &count_all<float>, nb::arg("alone"), nb::arg("counts"))
        .def("count", &count_all<double>, nb::arg("alone"), nb::arg("counts"));
    nb::class_<Forest>(m, "Forest")
        .def(nb::new_(&make_forest), nb::arg("nodes"), nb::arg("columns"), nb::arg("n_outputs"), nb::arg("n_features"),
             nb::arg("single_precision"), nb::arg("missing_value"), nb::arg("zero_within"), nb::arg("lowest_category"),
             nb::arg("absent_is_missing"))
        .def("rows", &quantised, nb::arg("X"))
        .def("column_rows", &quantised_columns, nb::arg("columns"))
        .def("sparse_rows", &quantised_sparse, nb::arg("data"), nb::arg("index"), nb::arg("start"));
    nb::class_<FewRows>(m, "FewRows")
        .def(nb::init<ForestPointer, const Predicting&, const ConstDoubles&, double, bool, bool, std::size_t,
                      std::size_t, nb::object, nb::object>(),
             nb::arg("forest"), nb::arg("predicting"), nb::arg("start"), nb::arg("threshold"),
             nb::arg("refuses_infinite"), nb::arg("refuses_missing"), nb::arg("most_rows"), nb::arg("n_columns"),
             nb::arg("finish").none(), nb::arg("rule").none())
        .def("predict", &FewRows::predict, nb::arg("X"), nb::arg("return_trees"), nb::arg("of_frame") = false);
}

}  // namespace rfsize
