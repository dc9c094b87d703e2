// Votes of two classes; see rfsize/stopping/rules/binary.py.
#include "bind_stops.hpp"
#include "stop_votes.hpp"

namespace rfsize {

namespace {

class BinaryStop : public VoteRule<BinaryStop> {
public:
    BinaryStop(const ConstBounds& lower, const ConstBounds& upper, std::size_t every)
        : lower_(copied(lower)), upper_(copied(upper)), every_(every) {
        expect(every > 0, "every must be at least 1");
    }

    void check(std::size_t n_members, std::size_t n_classes) const {
        expect(lower_.size() == n_members + 1 && upper_.size() == n_members + 1,
               "the stops are for another number of trees");
        expect(n_classes == 2, "the stops are for two classes");
    }
    bool looks(std::size_t asked) const { return asked % every_ == 0 || asked + 1 == lower_.size(); }
    std::int64_t decided(Tallies<Count>& rows, std::size_t asked, std::size_t j) const {
        const std::int32_t votes = rows.votes[1][j], low = lower_[asked];
        return votes <= low || votes >= upper_[asked] ? votes > low : -1;
    }

private:
    std::vector<std::int32_t> lower_, upper_;
    std::size_t every_;
};

void bind(nb::module_& m) {
    nb::class_<BinaryStop, VoteStop>(m, "BinaryStop")
        .def(nb::init<const ConstBounds&, const ConstBounds&, std::size_t>(), nb::arg("lower"), nb::arg("upper"),
             nb::arg("every"));
}

const Part PART(bind);

}  // namespace

}  // namespace rfsize
