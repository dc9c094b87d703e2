// Votes of any classes, by the two that lead; see rfsize/stopping/rules/leaders.py.
#include "bind_stops.hpp"
#include "stop_votes.hpp"

namespace rfsize {

namespace {

class LeaderStop : public VoteRule<LeaderStop> {
public:
    LeaderStop(const ConstBounds& upper, std::size_t every) : upper_(copied(upper)), every_(every) {
        expect(every > 0, "every must be at least 1");
    }

    static constexpr bool follows(std::size_t) { return true; }
    void check(std::size_t n_members, std::size_t) const {
        expect(upper_.size() == n_members + 1, "the stops are for another number of trees");
    }
    bool looks(std::size_t asked) const { return asked % every_ == 0 || asked + 1 == upper_.size(); }
    std::int64_t decided(Tallies<Count>& rows, std::size_t asked, std::size_t j) const {
        const std::uint16_t leader = rows.leaders[0][j], rival = rows.leaders[1][j];
        const std::int64_t most = rows.votes[leader][j], next = rows.votes[rival][j];
        const bool is_settled = most - next + (leader < rival) > static_cast<std::int64_t>(upper_.size() - 1 - asked);
        return is_settled || most >= upper_[static_cast<std::size_t>(most + next)] ? leader : -1;
    }

private:
    std::vector<std::int32_t> upper_;
    std::size_t every_;
};

void bind(nb::module_& m) {
    nb::class_<LeaderStop, VoteStop>(m, "LeaderStop")
        .def(nb::init<const ConstBounds&, std::size_t>(), nb::arg("upper"), nb::arg("every"));
}

const Part PART(bind);

}  // namespace

}  // namespace rfsize
