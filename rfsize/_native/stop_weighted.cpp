// Votes with weights; see rfsize/stopping/rules/weighted.py.
#include "bind_stops.hpp"
#include "stop_votes.hpp"

namespace rfsize {

namespace {

class WeightedStop : public VoteRule<WeightedStop> {
public:
    using Count = double;

    WeightedStop(const ConstDoubles& weight, const ConstDoubles& needed)
        : weight_(copied(weight)), needed_(copied(needed)) {}

    static constexpr bool follows(std::size_t n_classes) {
        return n_classes > 2;  // of two, the sums themselves tell sooner
    }
    void check(std::size_t n_members, std::size_t) const {
        expect(weight_.size() == n_members && needed_.size() == n_members + 1,
               "the stops are for another number of members");
    }
    Count weight(std::size_t member) const { return weight_[member]; }
    bool looks(std::size_t asked) const {
        return 2.0 * needed_[asked] <= needed_[0];  // else no lead exceeds the weight asked
    }
    std::int64_t decided(Tallies<Count>& rows, std::size_t asked, std::size_t j) const {
        std::uint16_t leader = rows.votes[1][j] > rows.votes[0][j], rival = 1 - leader;
        if (follows(rows.votes.columns())) {
            leader = rows.leaders[0][j];
            rival = rows.leaders[1][j];
        }
        const double lead = rows.votes[leader][j] - rows.votes[rival][j];
        return lead > needed_[asked] || (lead == needed_[asked] && leader < rival) ? leader : -1;
    }

private:
    std::vector<double> weight_, needed_;
};

void bind(nb::module_& m) {
    nb::class_<WeightedStop, VoteStop>(m, "WeightedStop")
        .def(nb::init<const ConstDoubles&, const ConstDoubles&>(), nb::arg("weight"), nb::arg("needed"));
}

const Part PART(bind);

}  // namespace

}  // namespace rfsize
