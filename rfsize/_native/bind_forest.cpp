// Forests, rows that go down their trees, and where they stop, as Python sees them.
#include <nanobind/stl/shared_ptr.h>

#include <deque>
#include <utility>
#include <variant>

#include "bindings.hpp"
#include "few.hpp"
#include "stop_spread.hpp"

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

// From `Nodes`, `Columns` and `Reading` as Python has them.
ForestPointer make_forest(const Tuple& nodes, const Tuple& columns, const nb::object& reading, std::size_t n_outputs,
                          std::size_t n_features) {
    Nodes of_trees;
    of_trees.nodes = view_of<std::uint64_t>(nodes[0], "nodes");
    const auto take_value = [&]<class Real>(View<Real>& value) {
        Array<const Real, 2> held;
        if (!held.hold(nodes[1])) return false;
        value = held.span();
        of_trees.width = held.shape(1);
        return true;
    };
    if (!take_value(of_trees.floats) && !take_value(of_trees.doubles))
        throw nb::type_error("value must be a matrix of float32 or float64");
    of_trees.vote = view_of<std::uint16_t>(nodes[2], "vote");
    of_trees.tree_start = view_of<std::int64_t>(nodes[3], "tree_start");
    of_trees.bit_start = view_of<std::int64_t>(nodes[4], "bit_start");
    of_trees.bits = view_of<std::uint32_t>(nodes[5], "bits");
    const Columns of_columns{
        view_of<std::int64_t>(columns[0], "feature"), view_of<std::int64_t>(columns[1], "cut_start"),
        view_of<double>(columns[2], "cuts"),          view_of<std::int64_t>(columns[3], "start"),
        view_of<std::uint8_t>(columns[4], "missing"), view_of<std::int64_t>(columns[5], "base")};
    const auto is = [&](const char* name) { return nb::cast<bool>(reading.attr(name)); };
    const auto number = [&](const char* name) { return nb::cast<double>(reading.attr(name)); };
    const Reading of_rows{is("single_precision"),    number("missing"),       number("zero_within"),
                          number("lowest_category"), is("absent_is_missing"), is("refuses_infinite"),
                          is("refuses_missing")};
    // The last reference may end in a thread that has released the interpreter.
    const auto release = [](std::pair<Tuple, Tuple>* arrays) {
        const nb::gil_scoped_acquire acquired;
        delete arrays;
    };
    std::shared_ptr<const void> owner(new std::pair(nodes, columns), release);
    return std::make_shared<const Forest>(of_trees, of_columns, n_outputs, n_features, of_rows, std::move(owner));
}

// Fill nodes, from which of them are leaves, and the column and the rank of each split, byte by byte: the first bytes
// of all, then the second ones.
void unpack_nodes(const Array<const bool, 1>& is_leaf, const Array<const std::uint8_t, 1>& column,
                  const Array<const std::uint8_t, 1>& rank, const Array<const std::uint8_t, 1>& missing,
                  const ConstIndices& tree_start, const Array<std::uint64_t, 1>& nodes) {
    const std::size_t n = nodes.size(), n_splits = rank.size() / 2;
    is_leaf.expect({n}, "is_leaf");
    expect(std::count(is_leaf.data(), is_leaf.data() + n, false) == static_cast<std::ptrdiff_t>(n_splits) &&
               column.size() == 4 * n_splits && rank.size() == 2 * n_splits,
           "not one column for each split");
    const auto number = [n_splits](const std::uint8_t* first, std::size_t n_bytes) {
        std::uint64_t joined = 0;
        for (std::size_t byte = 0; byte < n_bytes; ++byte)
            joined |= std::uint64_t{first[byte * n_splits]} << (8 * byte);
        return joined;
    };
    std::vector<std::uint64_t> tests(n_splits + 1);
    for (std::size_t split = 0; split < n_splits; ++split) {
        const std::uint64_t of_column = number(column.data() + split, 4);
        expect(of_column < missing.size(), "a split tests a column that rows do not have");
        const bool is_category = missing.data()[of_column] == CATEGORY;
        tests[split] = of_column << COLUMN_SHIFT | number(rank.data() + split, 2) | (is_category ? CATEGORICAL : 0);
    }
    const std::span<const std::int64_t> starts = tree_start.span();
    std::size_t split = 0, tree = 0;
    for (std::size_t place = 0; place < n; ++place) {  // without a branch: nobody foresees where leaves are
        while (tree + 1 < starts.size() && starts[tree + 1] <= static_cast<std::int64_t>(place)) ++tree;
        const bool is = is_leaf.data()[place];
        // Breadth first: the children of the k-th split of a tree are its nodes 2k + 1 and 2k + 2, and each tree before
        // has one leaf more than splits.
        const std::uint64_t left = is ? place : 2 * split + tree + 1, test = is ? RANK_MASK : tests[split];
        nodes.data()[place] = left << LEFT_SHIFT | test;
        split += is ? 0 : 1;
    }
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
    const auto add = [&]<class Number>(Strided<Number> numbers) {
        table.columns.push_back([numbers](auto first, auto n, double* out) { numbers.read(first, n, 0, out); });
        return true;
    };
    const auto* data = static_cast<const char*>(view.buf);
    return ((column.is<T>() && add(Strided<T>{data, table.rows, 1, view.strides[0], 0})) || ...);
}

// Rows of which each column is an array of its own.
Rows quantised_columns(const ForestPointer& forest, const nb::typed<nb::sequence, nb::object>& columns) {
    expect(nb::len(columns) >= forest->n_features() && nb::len(columns) > 0,
           "the rows have fewer columns than the forest was trained on");
    std::deque<Buffer> held;
    Table table{nb::len(nb::object(columns[0])), {}};
    for (const nb::handle column : columns) {
        Buffer& buffer = held.emplace_back();
        expect(buffer.hold(column, PyBUF_STRIDED_RO) && buffer.view().ndim == 1 &&
                   static_cast<std::size_t>(buffer.view().shape[0]) == table.rows,
               "a column is no list of as many numbers as the first");
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
    expect_ascending(start.span(), data.size(), "the sparse rows are damaged: a row does not begin where another ends");
    Released released;
    Rows rows(forest, start.size() - 1);
    forest->quantise_sparse(data.span(), index.span(), start.span(), rows.q());
    return rows;
}

void reach(const Rows& rows, const ConstIndices& index, const Array<std::int64_t, 2>& leaf) {
    index.expect({rows.forest().n_nodes()}, "index");
    leaf.expect({rows.n_rows(), rows.forest().n_trees()}, "leaf");
    Released released;
    rows.run<EveryLeaf>(index.span(), leaf.matrix());
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

// What one method of a compiled forest predicts: labels where there is a rule that stops by scores or votes, else
// numbers. It predicts rows block by block, and a few rows of plain arrays in one call.
class ForestPredictor {
public:
    ForestPredictor(ForestPointer forest, const Predicting& predicting, const ConstDoubles& start, double threshold,
                    bool codes_numbers, std::size_t most_rows, std::size_t n_columns, nb::object finish,
                    nb::object rule)
        : forest_(std::move(forest)),
          label_of_{predicting, threshold},
          codes_numbers_(codes_numbers),
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
            expect_fit(*forest_, by_scores_->n_members(), by_scores_->drift.size());
        } else if (nb::isinstance<VoteStop>(rule_)) {
            by_votes_ = nb::cast<const VoteStop*>(rule_);
            expect_fit(*forest_, *by_votes_, n_columns);
        } else {
            expect(n_columns == start.size() || (start.size() == 1 && n_columns == 2),
                   "there is not one column for each class");
            if (rule_.is_none()) return;
            by_spread_ = nb::cast<const SpreadStop*>(rule_);
            expect_fit(*forest_, by_spread_->n_members(), by_spread_->start.size());
        }
    }

    // What is predicted, with how many trees predicted each row if that is wanted; None if the rows need more checks.
    // A frame may have held whole numbers that double precision rounds, and some frameworks round in another way; its
    // categories are codes already.
    nb::object predict(nb::handle X, bool return_trees, bool of_frame) const {
        AnyMatrix rows;
        if (!X.type().is(array_) || (codes_numbers_ && !of_frame) || !rows.hold(X) ||
            rows.columns() != forest_->n_features() || rows.rows() == 0 || rows.rows() > most_rows_)
            return nb::none();
        const auto from = [&](const auto& given) {
            return forest_->is_single() ? predicted<float>(given, return_trees, of_frame)
                                        : predicted<double>(given, return_trees, of_frame);
        };
        return rows.is_single() ? from(rows.strided<float>()) : from(rows.strided<double>());
    }

    void fill_labels(const Rows& rows, const Array<std::int64_t, 1>& label,
                     const Array<std::int64_t, 1>& n_used) const {
        label.expect({rows.n_rows()}, "label");
        expect(is_label(), "numbers are predicted, and not labels");
        std::visit([&]<class Real>(const std::vector<Real>&) { fill<Real>(rows, label.data(), {}, n_used); }, start_);
    }

    template <class Real>
    void fill_numbers(const Rows& rows, const Array<Real, 2>& numbers, const Array<std::int64_t, 1>& n_used) const {
        numbers.expect({rows.n_rows(), n_columns_}, "numbers");
        expect(!is_label() && forest_->is_single() == std::is_same_v<Real, float>,
               "labels are predicted, or numbers of another precision");
        fill<Real>(rows, nullptr, numbers.matrix(), n_used);
    }

    // Votes of all members for each class.
    void count(const Rows& rows, const Array<std::int32_t, 2>& counts) const {
        expect_own(rows);
        counts.expect({rows.n_rows(), checked_classes(*forest_, n_columns_)}, "counts");
        Released released;
        const auto votes = [&]<class Real>(const std::vector<Real>&) {
            rows.run<ByVotes<Real, false>>(alone<Real>(), nullptr, counts.matrix(), Answers{});
        };
        std::visit(votes, start_);
    }

private:
    ForestPointer forest_;
    LabelOfSums label_of_;
    bool codes_numbers_;
    std::size_t most_rows_, n_columns_;
    nb::object finish_, rule_, array_, empty_, int_, real_;
    const ScoreStop* by_scores_ = nullptr;
    const VoteStop* by_votes_ = nullptr;
    const SpreadStop* by_spread_ = nullptr;
    std::variant<std::vector<float>, std::vector<double>> start_;

    bool is_label() const { return by_scores_ != nullptr || by_votes_ != nullptr; }

    void expect_own(const Rows& rows) const {
        expect(&rows.forest() == forest_.get(), "the rows are of another forest");
    }

    template <class Real>
    TreeAlone<Real> alone() const {
        const double factor = static_cast<double>(forest_->n_members()) / label_of_.predicting.divisor;
        return {static_cast<Real>(factor), std::get<std::vector<Real>>(start_)};
    }

    template <class Real>
    void fill(const Rows& rows, std::int64_t* label, const Matrix<Real>& numbers,
              const Array<std::int64_t, 1>& n_used) const {
        n_used.expect({rows.n_rows()}, "n_used");
        expect_own(rows);
        Released released;
        answer(rows, {label, n_used.data()}, numbers);
    }

    template <class Real, class T>
    nb::object predicted(const Strided<T>& X, bool return_trees, bool of_frame) const {
        const Temporary<std::int64_t> unwanted(return_trees ? 0 : X.rows);
        nb::object trees = return_trees ? empty_(nb::make_tuple(X.rows), int_) : nb::none();
        nb::object out = n_columns_ == 1 || is_label() ? empty_(nb::make_tuple(X.rows), is_label() ? int_ : real_)
                                                       : empty_(nb::make_tuple(X.rows, n_columns_), real_);
        const Answers answers{is_label() ? data_of<std::int64_t>(out) : nullptr,
                              return_trees ? data_of<std::int64_t>(trees) : unwanted.data()};
        const Matrix<Real> numbers{is_label() ? nullptr : data_of<Real>(out), X.rows, n_columns_};
        bool is_taken = false;
        {
            Released released;
            is_taken = takes(forest_->reading(), X, of_frame);
            if (is_taken) {
                const Temporary<std::uint16_t> q(X.rows * forest_->n_columns());
                forest_->quantise(X, q.data());
                answer(Rows(forest_, X.rows, q.data()), answers, numbers);
            }
        }
        if (!is_taken) return nb::none();
        if (!finish_.is_none()) out = finish_(out);
        return return_trees ? nb::object(nb::make_tuple(out, trees)) : out;
    }

    template <class Real>
    void answer(const Rows& rows, const Answers& answers, const Matrix<Real>& numbers) const {
        const auto& start = std::get<std::vector<Real>>(start_);
        const std::size_t n_rows = rows.n_rows();
        std::fill_n(answers.n_used, n_rows, static_cast<std::int64_t>(forest_->n_members()));
        if (is_label()) std::fill_n(answers.label, n_rows, std::int64_t{-1});
        if (by_votes_ != nullptr) {
            label_by_votes(*by_votes_, rows, alone<Real>(), n_columns_, answers);
            return;
        }
        const Temporary<Real> sums(n_rows * start.size());
        const Matrix<Real> total{sums.data(), n_rows, start.size()};
        for (std::size_t row = 0; row < n_rows; ++row) std::copy(start.begin(), start.end(), total[row].begin());
        if (by_scores_ != nullptr) {
            label_by_scores(rows, *by_scores_, label_of_, total, answers);
            return;
        }
        if (by_spread_ != nullptr)
            rows.run<BySpread<Real>>(*by_spread_, total, answers.n_used);
        else
            add_all(rows, total);
        predict_from(label_of_.predicting, total, numbers);
    }
};

}  // namespace

void bind_forest(nb::module_& m) {
    m.def("unpack_nodes", &unpack_nodes, "is_leaf"_a, "column"_a, "rank"_a, "missing"_a, "tree_start"_a, "nodes"_a);
    nb::class_<Predicting>(m, "Predicting")
        .def(nb::new_([](double divisor, double slope, int link) { return Predicting{divisor, slope, link_of(link)}; }),
             "divisor"_a, "slope"_a, "link"_a)
        .def("predict", &predict_sums<float>, "total"_a, "out"_a)
        .def("predict", &predict_sums<double>, "total"_a, "out"_a);
    nb::class_<Rows>(m, "Rows").def("__len__", &Rows::n_rows).def("reach", &reach, "index"_a, "leaf"_a);
    nb::class_<Forest>(m, "Forest")
        .def(nb::new_(&make_forest), "nodes"_a, "columns"_a, "reading"_a, "n_outputs"_a, "n_features"_a)
        .def("rows", &quantised, "X"_a)
        .def("column_rows", &quantised_columns, "columns"_a)
        .def("sparse_rows", &quantised_sparse, "data"_a, "index"_a, "start"_a);
    nb::class_<ForestPredictor>(m, "ForestPredictor")
        .def(nb::init<ForestPointer, const Predicting&, const ConstDoubles&, double, bool, std::size_t, std::size_t,
                      nb::object, nb::object>(),
             "forest"_a, "predicting"_a, "start"_a, "threshold"_a, "codes_numbers"_a, "most_rows"_a, "n_columns"_a,
             "finish"_a.none(), "rule"_a.none())
        .def("predict", &ForestPredictor::predict, "X"_a, "return_trees"_a, "of_frame"_a = false)
        .def("count", &ForestPredictor::count, "rows"_a, "counts"_a)
        .def("fill", &ForestPredictor::fill_labels, "rows"_a, "label"_a, "n_used"_a)
        .def("fill", &ForestPredictor::fill_numbers<float>, "rows"_a, "numbers"_a, "n_used"_a)
        .def("fill", &ForestPredictor::fill_numbers<double>, "rows"_a, "numbers"_a, "n_used"_a);
}

}  // namespace rfsize
