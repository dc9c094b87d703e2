// The rule that goes by the spread of a row's own scores; see rfsize/stopping/rules/spread.py.
#include "bind_stops.hpp"

namespace rfsize {

namespace {

// A tree alone scores scale times its value, and start more.
struct SpreadStop {
    double limit;
    std::size_t every;
    std::vector<double> pooled;
    double weight;
    Link link;
    double slope, scale;
    std::vector<double> start;
};

// Rows stop where the spread of their scores says that what is predicted will hardly change.
template <class Real>
class BySpread : public Going {
public:
    static constexpr bool stops = true;

    BySpread(const Forest& forest, const SpreadStop& stop, Matrix<Real> total, std::int64_t* asked, std::size_t most)
        : Going(most),
          forest_(forest),
          stop_(stop),
          total_(total),
          asked_(asked),
          sums_(total.columns, most),
          values_(total.columns, most),
          first_(total.columns, most),
          squares_(total.columns, most),
          mean_(total.columns),
          predicted_(total.columns) {}

    std::size_t first_stage() const { return forest_.n_members(); }

    void enter(std::span<const std::uint32_t> rows) {
        Going::enter(rows);
        sums_.enter(total_, rows);
        for (std::size_t k = 0; k < total_.columns; ++k) {
            std::fill_n(values_[k], rows.size(), 0.0);
            std::fill_n(squares_[k], rows.size(), 0.0);
        }
    }
    void leave(std::size_t n) { sums_.leave(total_, rows_, n); }
    void keep(std::span<const std::uint32_t> kept) {
        Going::keep(kept);
        sums_.keep(kept);
        values_.keep(kept);
        first_.keep(kept);
        squares_.keep(kept);
    }

    template <class Leaves>
    void add(std::size_t member, std::size_t output, const Leaves& leaves, std::size_t n) {
        const Real* value = forest_.values<Real>(leaves);
        const std::size_t width = forest_.nodes().width;
        for (std::size_t part = 0; part < width; ++part) {
            const std::size_t k = output + part;
            for (std::size_t j = 0; j < n; ++j) {
                if (settled_[j]) continue;
                const Real added = value[leaves.at[j] * width + part];
                sums_[k][j] += added;
                values_[k][j] += static_cast<double>(added);
                if (member == 0) first_[k][j] = static_cast<double>(added);
                const double apart = static_cast<double>(added) - first_[k][j];
                squares_[k][j] += apart * apart;
            }
        }
    }

    bool looks(std::size_t asked) const { return asked % stop_.every == 0 && asked != forest_.n_members(); }

    std::size_t settle(std::size_t asked, std::size_t n) {
        std::size_t settled = 0;
        const auto trees = static_cast<double>(asked), all = static_cast<double>(forest_.n_members());
        for (std::size_t j = 0; j < n; ++j) {
            if (settled_[j] || !(left_to_change(j, trees, all) <= stop_.limit)) continue;
            for (std::size_t k = 0; k < total_.columns; ++k)
                sums_[k][j] = static_cast<Real>(stop_.start[k] + (mean_[k] - stop_.start[k]) * all / stop_.scale);
            settled_[j] = 1;
            asked_[rows_[j]] = static_cast<std::int64_t>(asked);
            ++settled;
        }
        return settled;
    }

private:
    const Forest& forest_;
    const SpreadStop& stop_;
    Matrix<Real> total_;
    std::int64_t* asked_;
    ByColumns<Real> sums_;
    ByColumns<double> values_, first_, squares_;  // squares of distances from the first tree's, which do not cancel
    std::vector<double> mean_, predicted_;

    // What is compared with the limit; fills mean_ with mean scores.
    double left_to_change(std::size_t j, double asked, double all) {
        for (std::size_t k = 0; k < mean_.size(); ++k) {
            mean_[k] = stop_.start[k] + stop_.scale * values_[k][j] / asked;
            predicted_[k] = stop_.slope * mean_[k];
        }
        if (stop_.link == Link::SOFTMAX)
            softmax(std::span(predicted_));
        else if (stop_.link != Link::IDENTITY && stop_.link != Link::SQUARE)
            for (double& each : predicted_) each = linked(each, stop_.link);
        double largest = 0.0;
        for (std::size_t k = 0; k < mean_.size(); ++k) {
            const double sum = values_[k][j] - asked * first_[k][j];
            const double squares = std::max(stop_.scale * stop_.scale * (squares_[k][j] - sum * sum / asked), 0.0);
            const double variance =
                (stop_.weight * stop_.pooled[k] * stop_.pooled[k] + squares) / (stop_.weight + asked - 1.0);
            largest = std::max(largest, std::sqrt(variance) * steepness(k));
        }
        return largest * std::sqrt(1.0 / asked - 1.0 / all);
    }

    double steepness(std::size_t k) const {
        switch (stop_.link) {
            case Link::IDENTITY: return stop_.slope;
            case Link::EXP: return stop_.slope * predicted_[k];
            case Link::STEP: return 0.0;
            case Link::SOFTPLUS: return stop_.slope * (1.0 - std::exp(-predicted_[k]));
            case Link::SQUARE: return 2.0 * stop_.slope * stop_.slope * std::abs(mean_[k]);
            default: return stop_.slope * predicted_[k] * (1.0 - predicted_[k]);
        }
    }
};

template <class Real>
void settle(const SpreadStop& stop, const Rows& rows, const Array<Real, 2>& total,
            const Array<std::int64_t, 1>& asked) {
    expect_totals(rows, total);
    expect(stop.start.size() == rows.forest().n_scores(), "the stops are for another forest");
    asked.expect({rows.n_rows()}, "asked");
    Released released;
    BySpread<Real> rule(rows.forest(), stop, total.matrix(), asked.data(), rows.most());
    rows.run(rule);
}

void bind(nb::module_& m) {
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
            nb::arg("scale"), nb::arg("start"))
        .def("settle", &settle<float>, nb::arg("rows"), nb::arg("total"), nb::arg("asked"))
        .def("settle", &settle<double>, nb::arg("rows"), nb::arg("total"), nb::arg("asked"));
}

const Part PART(bind);

}  // namespace

}  // namespace rfsize
