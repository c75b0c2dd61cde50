// What benchmarks/instructions.py counts the instructions of: one function a scenario, over fixed
// data, on one thread. It runs under callgrind, which counts from the entry of each of them to its
// end; what comes before is not counted.
//
// A scenario is the work of a user's call, so that what moves from a kernel into the code around
// it is seen as well.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "flashbulb/approximate.hpp"
#include "flashbulb/search.hpp"
#include "flashbulb/simd_level.hpp"
#include "flashbulb/sketch.hpp"
#include "flashbulb/suppression.hpp"
#include "flashbulb/thread_pool.hpp"
#include "flashbulb/traces.hpp"
#include "flashbulb/views.hpp"
#include "flashbulb/welford.hpp"

namespace {

using namespace flashbulb;

constexpr std::size_t row_count = 4096;
constexpr std::size_t query_count = 32;
constexpr std::size_t topics = 64;
constexpr std::size_t dim = 384;
constexpr double now = 1.7e9;
constexpr double day = 86400.0;
#if defined(__clang__)
constexpr const char* compiler = "clang";
#else
constexpr const char* compiler = "gcc";
#endif

// Around some topics, so that rows have neighbours: a row's cosine to its topic is about 0.85.
std::vector<float> make_rows(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::mt19937 of_topics(0);
    const auto uniform = [](std::mt19937& from) {
        return static_cast<float>(from()) / 4294967296.0F - 0.5F;
    };
    std::vector<float> centres(topics * dim);
    for (float& value : centres) value = uniform(of_topics);
    std::vector<float> rows(count * dim);
    for (std::size_t row = 0; row < count; ++row) {
        const float* centre = centres.data() + random() % topics * dim;
        for (std::size_t i = 0; i < dim; ++i) {
            rows[row * dim + i] = centre[i] + 0.6F * uniform(random);
        }
    }
    if (normalize_rows(rows.data(), count, dim, rows.data()) != count) std::abort();
    return rows;
}

TraceTable make_traces() {
    std::mt19937 random(2);
    const auto uniform = [&] { return static_cast<double>(random()) / 4294967296.0; };
    std::vector<Trace> traces(row_count);
    std::vector<std::vector<TagId>> tags(row_count);
    for (std::size_t row = 0; row < row_count; ++row) {
        Trace& trace = traces[row];
        trace.id = static_cast<std::int64_t>(row);
        trace.salience = uniform() < 0.05 ? 0.8 + 0.2 * uniform() : 0.6 * uniform();
        trace.floor = Policy{}.floor_for(trace.salience);
        trace.created = trace.vividness_time = now - 365.0 * day * uniform();
        trace.pinned = uniform() < 0.001;
        for (TagId tag = 0; tag < 4; ++tag) {
            if (uniform() < 0.25) tags[row].push_back(tag);
        }
    }
    TraceTable table{Policy{}};
    table.append(traces, tags);
    return table;
}

struct Store {
    std::vector<float> rows = make_rows(row_count, 1);
    std::vector<float> queries = make_rows(query_count, 3);
    VectorView view{{{rows.data(), 0, row_count}}, dim};
    TraceTable traces = make_traces();
    Sketch sketch{dim};
    Sketch fresh{dim};
    Partition partition{make_rows(topics, 4), dim};

    Store() {
        sketch.extend(view);
        std::vector<std::uint32_t> lists;
        for (std::size_t row = 0; row < row_count; ++row) {
            lists.push_back(partition.nearest(view.row(row), 1, 0).front());
        }
        partition.append(lists);
    }
};

Store& store() {
    static Store made;
    return made;
}

std::size_t found = 0;  // so that no result is left unused

// Without a path: the float32 rows.
SearchRequest request_for(std::optional<SearchPath> path, std::size_t queries,
                          std::vector<TagId> tags = {}) {
    SearchRequest request;
    request.queries = store().queries.data();
    request.query_count = queries;
    request.k = 10;
    request.now = now;
    request.filter.tags = std::move(tags);
    if (path) {
        request.path = *path;
        request.sketch = &store().sketch;
    }
    return request;
}

void search_by(std::optional<SearchPath> path, std::size_t queries, std::vector<TagId> tags = {}) {
    const SearchRequest request = request_for(path, queries, std::move(tags));
    found += search(store().view, store().traces, request).ids.size();
}

}  // namespace

// Names that callgrind finds; `noinline` keeps them apart.
#define SCENARIO(name) extern "C" __attribute__((noinline)) void scenario_##name()

SCENARIO(search_fp32) { search_by(std::nullopt, 1); }
SCENARIO(search_int8) { search_by(SearchPath::int8, 1); }
SCENARIO(search_int4) { search_by(SearchPath::int4, 1); }
SCENARIO(search_tags) { search_by(SearchPath::int4, 1, {1, 3}); }
SCENARIO(search_batch) { search_by(SearchPath::automatic, query_count); }
SCENARIO(search_nearby) {
    const SearchRequest request = request_for(SearchPath::int4, 1);
    found +=
        search_nearby(store().view, store().traces, request, {&store().partition, 4, 0}).ids.size();
}
SCENARIO(encode_sketch) { store().fresh.extend(store().view); }
SCENARIO(bonus_bounds) { found += store().traces.bonus_bounds(now + 10.0 * day) ? 1 : 0; }
SCENARIO(vividness) { found += store().traces.all_vividness(now).size(); }
SCENARIO(decay) { store().traces.materialize_decay(now); }

SCENARIO(suppress) {
    const std::vector<std::size_t> accessed = {5, 505, 1005, 1505, 2005};
    found +=
        suppress(store().view, store().traces, accessed, std::nullopt, now + day, &store().sketch)
            .size();
}

SCENARIO(welford_one_by_one) {
    Centroid centroid(dim);
    for (std::size_t row = 0; row < row_count; ++row) centroid.update(store().view.row(row));
    found += static_cast<std::size_t>(centroid.count());
}

SCENARIO(welford_rows) {
    Centroid centroid(dim);
    centroid.update(store().rows.data(), row_count);
    found += static_cast<std::size_t>(centroid.count());
}

int main(int argc, char**) {
    struct Scenario {
        const char* name;
        void (*run)();
    };
    // Those that change the traces come last.
    constexpr Scenario scenarios[] = {
        {"scenario_search_fp32", scenario_search_fp32},
        {"scenario_search_int8", scenario_search_int8},
        {"scenario_search_int4", scenario_search_int4},
        {"scenario_search_tags", scenario_search_tags},
        {"scenario_search_batch", scenario_search_batch},
        {"scenario_search_nearby", scenario_search_nearby},
        {"scenario_encode_sketch", scenario_encode_sketch},
        {"scenario_welford_one_by_one", scenario_welford_one_by_one},
        {"scenario_welford_rows", scenario_welford_rows},
        {"scenario_vividness", scenario_vividness},
        {"scenario_bonus_bounds", scenario_bonus_bounds},
        {"scenario_suppress", scenario_suppress},
        {"scenario_decay", scenario_decay},
    };
    try {
        if (argc > 1) {  // whatever it is: what there is, and what the counts depend on
            std::printf("compiler %s %s\nlevel %s\n", compiler, __VERSION__,
                        std::string(to_string(active_simd_level())).c_str());
            for (const Scenario& each : scenarios) std::printf("scenario %s\n", each.name);
            return 0;
        }
        set_threads(1);
        // What is made at a first search is there for every later one.
        search_by(std::nullopt, 1);
        search_by(SearchPath::int4, 1);
        for (const Scenario& each : scenarios) each.run();
        return found == 0 ? 1 : 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
