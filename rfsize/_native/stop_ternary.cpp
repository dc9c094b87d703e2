// Votes of three classes; see rfsize/stopping/rules/ternary.py.
#include "bind_stops.hpp"
#include "stop_votes.hpp"
#include "urn.hpp"

namespace rfsize {

namespace {

class TernaryStop : public VoteRule<TernaryStop> {
public:
    TernaryStop(const Array<const std::int8_t, 1>& decision, std::size_t every)
        : decision_(copied(decision)), every_(every) {
        expect(every > 0, "every must be at least 1");
        for (const std::int8_t each : decision_) expect(each < 3, "the stops answer with a class that is none");
        while (ternary_index(n_members_ + 1, 0, 0) < decision_.size()) ++n_members_;
    }

    void check(std::size_t n_members, std::size_t n_classes) const {
        expect(decision_.size() == ternary_index(n_members + 1, 0, 0) && n_classes == 3,
               "the stops are for another number of trees, or of classes");
    }
    bool looks(std::size_t asked) const { return asked % every_ == 0 || asked == n_members_; }
    std::int64_t decided(Tallies<Count>& rows, std::size_t asked, std::size_t j) const {
        return decision_[ternary_index(asked, static_cast<std::size_t>(rows.votes[0][j]),
                                       static_cast<std::size_t>(rows.votes[1][j]))];
    }

private:
    std::vector<std::int8_t> decision_;
    std::size_t every_, n_members_ = 0;
};

void bind(nb::module_& m) {
    nb::class_<TernaryStop, VoteStop>(m, "TernaryStop")
        .def(nb::init<const Array<const std::int8_t, 1>&, std::size_t>(), nb::arg("decision"), nb::arg("every"));
}

const Part PART(bind);

}  // namespace

}  // namespace rfsize
