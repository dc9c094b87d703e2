// Calls on one forest from several threads at once give what one thread gives; for ThreadSanitizer, see .ci/native.
#include <cstdio>
#include <random>
#include <thread>

#include "predict.hpp"
#include "stop_averages.hpp"

using namespace rfsize;

namespace {

constexpr std::size_t N_TREES = 60, N_COLUMNS = 6, N_ROWS = 3000, N_CUTS = 200;

struct Arrays {
    std::vector<std::uint64_t> nodes;
    std::vector<double> values, cuts;
    std::vector<std::int64_t> tree_start{0}, feature, cut_start{0}, start{0},
        base = std::vector<std::int64_t>(N_COLUMNS);
    std::vector<std::uint8_t> missing = std::vector<std::uint8_t>(N_COLUMNS, AS_ZERO);
};

// Full trees of random splits.
std::unique_ptr<const Forest> drawn_forest(std::size_t depth, std::mt19937& random) {
    const std::size_t splits = (std::size_t{1} << depth) - 1, n = 2 * splits + 1;
    const auto kept = std::make_shared<Arrays>();
    for (std::size_t tree = 0; tree < N_TREES; ++tree) {
        const std::size_t first = tree * n;
        for (std::size_t place = 0; place < n; ++place) {
            const std::uint64_t left = place < splits ? first + 2 * place + 1 : first + place;
            const std::uint64_t test =
                place < splits ? (random() % N_COLUMNS) << COLUMN_SHIFT | random() % N_CUTS : RANK_MASK;
            kept->nodes.push_back(left << LEFT_SHIFT | test);
            kept->values.push_back(static_cast<double>(random() % 1000) / 500.0 - 1.0);
        }
        kept->tree_start.push_back(static_cast<std::int64_t>(first + n));
    }
    for (std::size_t column = 0; column < N_COLUMNS; ++column) {
        kept->feature.push_back(static_cast<std::int64_t>(column));
        for (std::size_t cut = 0; cut < N_CUTS; ++cut) kept->cuts.push_back(static_cast<double>(cut));
        kept->cut_start.push_back(static_cast<std::int64_t>(kept->cuts.size()));
        kept->start.push_back(static_cast<std::int64_t>(column + 1));
    }
    Nodes nodes;
    nodes.width = 1;
    nodes.nodes = kept->nodes;
    nodes.doubles = kept->values;
    nodes.tree_start = kept->tree_start;
    const Columns columns{kept->feature, kept->cut_start, kept->cuts, kept->start, kept->missing, kept->base};
    return std::make_unique<const Forest>(nodes, columns, 1, N_COLUMNS, Reading{false, -1e300, -1.0, -1.0, false},
                                          kept);
}

struct Answered {
    std::vector<double> total;
    std::vector<std::int64_t> label, n_used;
    bool operator==(const Answered&) const = default;
};

Answered answered(const Forest& forest, const std::vector<double>& X, const ScoreStop& stop) {
    std::vector<std::uint16_t> q(N_ROWS * forest.n_columns());
    const auto* data = reinterpret_cast<const char*>(X.data());
    forest.quantise(Strided<double>{data, N_ROWS, N_COLUMNS, N_COLUMNS * sizeof(double), sizeof(double)}, q.data());
    Answered found{std::vector<double>(N_ROWS), std::vector<std::int64_t>(N_ROWS, -1),
                   std::vector<std::int64_t>(N_ROWS, N_TREES)};
    ByScores<double> rule(forest, stop, {found.total.data(), N_ROWS, 1}, {found.label.data(), found.n_used.data()},
                          TOGETHER);
    Predictor(forest, q.data(), N_ROWS, rule).run();
    return found;
}

}  // namespace

int main() {
    std::mt19937 random(1);
    for (const std::size_t depth : {4, 9}) {
        const std::unique_ptr<const Forest> drawn = drawn_forest(depth, random);
        const Forest& forest = *drawn;
        std::vector<double> X(N_ROWS * N_COLUMNS);
        for (double& each : X) each = static_cast<double>(random() % (N_CUTS + 2));
        const std::vector<double> bound(N_TREES + 1, 6.0);
        const ScoreStop stop{1, 1, std::vector<double>(N_TREES + 1, -6.0), bound, bound};
        std::vector<Answered> found(4);
        std::vector<std::thread> threads;
        for (Answered& each : found) threads.emplace_back([&] { each = answered(forest, X, stop); });
        for (std::thread& each : threads) each.join();
        const Answered expected = answered(forest, X, stop);  // last, so that the threads find the forest as it is made
        for (const Answered& each : found)
            if (!(each == expected)) {
                std::puts("threads disagree");
                return 1;
            }
    }
    std::puts("four threads agree with one");
}
