// Times of the kernels and of a whole search at every SIMD level, on one thread.
//
// What a scan costs is bound by memory bandwidth. `read` sums the same bytes in the same run: the
// bytes_per_second of the scans are to be compared with its.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "dispatch.hpp"
#include "flashbulb/search.hpp"
#include "flashbulb/simd_level.hpp"
#include "flashbulb/traces.hpp"
#include "flashbulb/views.hpp"
#include "flashbulb/welford.hpp"
#include "parameters.hpp"

namespace {

using namespace flashbulb;

constexpr std::size_t dim = 384;
constexpr std::size_t million = 1'000'000;
constexpr double now = 1.7e9;
constexpr std::int64_t row_counts[] = {1'000, 10'000, 100'000};

// -- Data, made once -----------------------------------------------------------------------------

const std::vector<float>& unit_rows(std::size_t count) {
    static std::map<std::size_t, std::vector<float>> made;
    std::vector<float>& rows = made[count];
    if (rows.empty()) {
        std::mt19937_64 random(count);
        std::normal_distribution<float> normal;
        rows.resize(count * dim);
        for (float& value : rows) value = normal(random);
        if (normalize_rows(rows.data(), count, dim, rows.data()) != count) std::abort();
    }
    return rows;
}

const TraceTable& traces(std::size_t count) {
    static std::map<std::size_t, TraceTable> made;
    const auto found = made.find(count);
    if (found != made.end()) return found->second;
    std::mt19937_64 random(count);
    std::uniform_real_distribution<double> unit;
    std::vector<Trace> rows(count);
    std::vector<std::vector<TagId>> tags(count);
    for (std::size_t row = 0; row < count; ++row) {
        Trace& trace = rows[row];
        trace.id = static_cast<std::int64_t>(row);
        trace.salience = unit(random);
        trace.floor = Policy{}.floor_for(trace.salience);
        trace.created = trace.vividness_time = now - unit(random) * 1e7;
        for (TagId tag = 0; tag < 8; ++tag) {
            if (unit(random) < 0.25) tags[row].push_back(tag);
        }
    }
    TraceTable table{Policy{}};
    table.append(rows, tags);
    return made.emplace(count, std::move(table)).first->second;
}

const float* query() { return unit_rows(1'000).data() + 500 * dim; }

void set_rates(benchmark::State& state, std::size_t rows, std::size_t bytes_per_row) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(rows * bytes_per_row));
}

// -- What is measured ----------------------------------------------------------------------------

// Sums 64 bytes at a time with the widest registers there are, so that only reading takes time.
#if defined(__x86_64__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
std::uint64_t
sum_of(const float* values, std::size_t count) {
    typedef std::uint64_t Lanes __attribute__((vector_size(64), aligned(4), may_alias));
    const auto* lanes = reinterpret_cast<const Lanes*>(values);
    Lanes sums[4] = {};
    for (std::size_t i = 0; i + 4 <= count / 16; i += 4) {
        for (std::size_t j = 0; j < 4; ++j) sums[j] += lanes[i + j];
    }
    const Lanes sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return sum[0] + sum[3] + sum[5];
}

// The limit of a scan: reading the same bytes.
void read(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    const float* values = unit_rows(count).data();
    for (auto _ : state) benchmark::DoNotOptimize(sum_of(values, count * dim));
    set_rates(state, count, dim * sizeof(float));
}

void select_inner_products(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    const float* rows = unit_rows(count).data();
    std::vector<float> out(count);
    for (auto _ : state) {
        active_kernels().select_inner_products(query(), rows, count, dim, out.data());
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    set_rates(state, count, dim * sizeof(float));
}

enum class Path { float32, int8, int4 };

template <Path path, int queries = 1>
void search(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    // A view is of storage that its owner may change; a search only reads it.
    auto* rows = const_cast<float*>(unit_rows(count).data());
    const VectorView view({{rows, 0, count}}, dim);
    const TraceTable& table = traces(count);
    SearchRequest request;
    request.queries = unit_rows(256).data();
    request.query_count = queries;
    request.k = 10;
    request.now = now;
    Sketch sketch(dim);
    if (path != Path::float32) {
        sketch.extend(view);
        request.sketch = &sketch;
        request.path = path == Path::int8 ? SearchPath::int8 : SearchPath::int4;
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize(flashbulb::search(view, table, request));
    }
    set_rates(state, count,
              path == Path::float32 ? dim * sizeof(float)
                                    : sketch.stride() * (path == Path::int8 ? 2 : 1));
}

void encode(benchmark::State& state) {
    constexpr std::size_t count = 10'000;
    auto* rows = const_cast<float*>(unit_rows(count).data());
    const VectorView view({{rows, 0, count}}, dim);
    Sketch sketch(dim);
    for (auto _ : state) {
        sketch.truncate(0);
        sketch.extend(view);
    }
    set_rates(state, count, dim * sizeof(float));
}

void bonus(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const auto columns = law_columns(table.columns());
    const auto parameters = law_parameters(table.policy(), now, 0.3, 0.1);
    constexpr std::size_t block = 256;  // as a search calls it: the results stay in the cache
    double vividness[block];
    double recency[block];
    for (auto _ : state) {
        for (std::size_t row = 0; row + block <= million; row += block) {
            active_kernels().bonus(columns, row, block, parameters, vividness, recency);
            benchmark::DoNotOptimize(vividness);
            benchmark::ClobberMemory();
        }
    }
    set_rates(state, million, 7 * sizeof(double));
}

void decay(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const auto columns = law_columns(table.columns());
    const auto parameters = law_parameters(table.policy(), now, 0.3, 0.1);
    std::vector<double> out(million);
    for (auto _ : state) {
        active_kernels().vividness(columns, 0, million, parameters, out.data());
        benchmark::ClobberMemory();
    }
    set_rates(state, million, 5 * sizeof(double));
}

void welford_one_by_one(benchmark::State& state) {
    constexpr std::size_t count = 10'000;
    const float* rows = unit_rows(count).data();
    for (auto _ : state) {
        Centroid centroid(dim);
        for (std::size_t row = 0; row < count; ++row) centroid.update(rows + row * dim);
        benchmark::DoNotOptimize(centroid.mean().data());
    }
    set_rates(state, count, dim * sizeof(float));
}

void welford_rows(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    const float* rows = unit_rows(count).data();
    for (auto _ : state) {
        Centroid centroid(dim);
        centroid.update(rows, count);
        benchmark::DoNotOptimize(centroid.mean().data());
    }
    set_rates(state, count, dim * sizeof(float));
}

void rows_with_tags(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const std::vector<TagId> wanted = {1, 3, 6};
    for (auto _ : state) benchmark::DoNotOptimize(table.rows_with_tags(wanted));
    set_rates(state, million, sizeof(std::uint64_t) + sizeof(std::uint8_t));
}

void rows_with_an_unused_tag(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const std::vector<TagId> wanted = {1, 3, 40};
    for (auto _ : state) benchmark::DoNotOptimize(table.rows_with_tags(wanted));
    set_rates(state, million, sizeof(std::uint64_t) + sizeof(std::uint8_t));
}

// Every benchmark switches to its level when it starts.
benchmark::internal::Benchmark* add(const std::string& name, const std::string& level,
                                    void (*measured)(benchmark::State&)) {
    const auto at_level = [level, measured](benchmark::State& state) {
        set_simd_level(level);
        measured(state);
    };
    const std::string full_name = name + "/" + level;
    return benchmark::RegisterBenchmark(full_name.c_str(), at_level)->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    for (const std::int64_t count : row_counts) add("read", "base", read)->Arg(count);
    for (const SimdLevel each : supported_simd_levels()) {
        const std::string level(to_string(each));
        for (const std::int64_t count : row_counts) {
            add("select_inner_products", level, select_inner_products)->Arg(count);
            add("search_fp32", level, search<Path::float32>)->Arg(count);
            add("search_int8", level, search<Path::int8>)->Arg(count);
            add("search_int4", level, search<Path::int4>)->Arg(count);
            add("search_int8_of_256", level, search<Path::int8, 256>)->Arg(count);
            add("search_int4_of_16", level, search<Path::int4, 16>)->Arg(count);
            add("welford_rows", level, welford_rows)->Arg(count);
        }
        add("welford_one_by_one", level, welford_one_by_one);
        add("encode", level, encode);
        add("bonus", level, bonus);
        add("decay", level, decay);
        add("rows_with_tags", level, rows_with_tags);
        add("rows_with_an_unused_tag", level, rows_with_an_unused_tag);
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
