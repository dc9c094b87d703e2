// The rule on averaged scores, as Python sees it; few.hpp runs it too.
#include "stop_averages.hpp"

#include "bind_stops.hpp"

namespace rfsize {

namespace {

template <class Real>
void settle(const ScoreStop& stop, const Rows& rows, const Array<Real, 2>& total, const Array<std::int64_t, 1>& label,
            const Array<std::int64_t, 1>& asked) {
    expect_totals(rows, total);
    expect_fit(rows.forest(), stop);
    const Answers answers = answers_of(rows, label, asked);
    Released released;
    ByScores<Real> rule(rows.forest(), stop, total.matrix(), answers, rows.most());
    rows.run(rule);
}

void bind(nb::module_& m) {
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
            nb::arg("drift"))
        .def("settle", &settle<float>, nb::arg("rows"), nb::arg("total"), nb::arg("label"), nb::arg("asked"))
        .def("settle", &settle<double>, nb::arg("rows"), nb::arg("total"), nb::arg("label"), nb::arg("asked"));
}

const Part PART(bind);

}  // namespace

}  // namespace rfsize
