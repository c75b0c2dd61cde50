// Times of the kernels and of a whole search at every SIMD level, on one thread.
//
// What a scan costs is bound by memory bandwidth. Beside each figure stand, from the same run,
// `limit`, the bytes a second that this thread can read of a block as large as what the benchmark
// reads, and `of_limit`, the share of it that the benchmark's bytes_per_second is. A share above 1
// means that the data still lay in a nearer cache than the block's, one far below 1 that something
// else than reading takes the time (batches: arithmetic).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "dispatch.hpp"
#include "flashbulb/search.hpp"
#include "flashbulb/simd_level.hpp"
#include "flashbulb/thread_pool.hpp"
#include "flashbulb/traces.hpp"
#include "flashbulb/views.hpp"
#include "flashbulb/welford.hpp"
#include "parameters.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

extern "C" std::uint64_t flashbulb_read(const void* data, std::size_t bytes);  // read_limit.cpp

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

// -- The limit -----------------------------------------------------------------------------------

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Memory in pages as large as the system gives.
const void* block_of(std::size_t bytes) {
    constexpr std::size_t large_page = std::size_t{1} << 21;
    struct Block {
        void* data = nullptr;
        std::size_t bytes = 0;
        Block() = default;
        Block(const Block&) = delete;
        Block& operator=(const Block&) = delete;
        ~Block() { std::free(data); }
    };
    static Block block;
    if (block.bytes < bytes) {
        std::free(block.data);
        block.bytes = (bytes / large_page + 2) * large_page;
        block.data = std::aligned_alloc(large_page, block.bytes);
        if (block.data == nullptr) std::abort();
#ifdef MADV_HUGEPAGE
        madvise(block.data, block.bytes, MADV_HUGEPAGE);
#endif
        std::fill_n(static_cast<char*>(block.data), block.bytes, '\1');
    }
    return block.data;
}

// Bytes a second of reading `bytes`, again and again; measured at the first call.
double read_limit(std::size_t bytes) {
    static std::map<std::size_t, double> measured;
    double& limit = measured[bytes];
    if (limit > 0.0) return limit;
    const void* block = block_of(bytes);
    std::vector<double> taken;
    const auto begin = Clock::now();
    while (taken.size() < 5 || (seconds_since(begin) < 0.1 && taken.size() < 10'000)) {
        const auto start = Clock::now();
        benchmark::DoNotOptimize(flashbulb_read(block, bytes));
        taken.push_back(seconds_since(start));
    }
    std::nth_element(taken.begin(), taken.begin() + static_cast<long>(taken.size() / 2),
                     taken.end());
    return limit = static_cast<double>(bytes) / taken[taken.size() / 2];
}

// Times `work`, which reads so many bytes of so many rows.
template <class Work>
void measure(benchmark::State& state, std::size_t rows, std::size_t bytes_per_row, Work&& work) {
    const std::size_t bytes = rows * bytes_per_row;
    const double limit = read_limit(bytes);
    const auto start = Clock::now();
    for (auto _ : state) {
        work();
        benchmark::ClobberMemory();
    }
    const double rate =
        static_cast<double>(state.iterations()) * static_cast<double>(bytes) / seconds_since(start);
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
    state.counters["limit"] =
        benchmark::Counter(limit, benchmark::Counter::kDefaults, benchmark::Counter::OneK::kIs1024);
    state.counters["of_limit"] = rate / limit;
}

// -- What is measured ----------------------------------------------------------------------------

// The loop of the limit itself, over the rows as they lie (in small pages).
void read(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    const float* values = unit_rows(count).data();
    const std::size_t bytes = count * dim * sizeof(float);
    measure(state, count, dim * sizeof(float),
            [&] { benchmark::DoNotOptimize(flashbulb_read(values, bytes)); });
}

void select_inner_products(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    const float* rows = unit_rows(count).data();
    std::vector<float> out(count);
    measure(state, count, dim * sizeof(float), [&] {
        active_kernels().select_inner_products(query(), rows, count, dim, out.data());
        benchmark::DoNotOptimize(out.data());
    });
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
    // Scale, residual and two bounds of the bonus come with the codes of a row.
    const std::size_t planes = path == Path::int8 ? 2 : 1;
    measure(state, count,
            path == Path::float32 ? dim * sizeof(float) + 4 : planes * sketch.stride() + 12,
            [&] { benchmark::DoNotOptimize(flashbulb::search(view, table, request)); });
}

void encode(benchmark::State& state) {
    constexpr std::size_t count = 10'000;
    auto* rows = const_cast<float*>(unit_rows(count).data());
    const VectorView view({{rows, 0, count}}, dim);
    Sketch sketch(dim);
    measure(state, count, dim * sizeof(float), [&] {
        sketch.truncate(0);
        sketch.extend(view);
    });
}

void bonus(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const auto columns = law_columns(table.columns());
    const auto parameters = law_parameters(table.policy(), now, 0.3, 0.1);
    constexpr std::size_t block = 256;  // as a search calls it: the results stay in the cache
    double vividness[block];
    double recency[block];
    measure(state, million, 7 * sizeof(double), [&] {
        for (std::size_t row = 0; row + block <= million; row += block) {
            active_kernels().bonus(columns, row, block, parameters, vividness, recency);
            benchmark::DoNotOptimize(vividness);
            benchmark::ClobberMemory();
        }
    });
}

void decay(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const auto columns = law_columns(table.columns());
    const auto parameters = law_parameters(table.policy(), now, 0.3, 0.1);
    std::vector<double> out(million);
    measure(state, million, 5 * sizeof(double),
            [&] { active_kernels().vividness(columns, 0, million, parameters, out.data()); });
}

void welford_one_by_one(benchmark::State& state) {
    constexpr std::size_t count = 10'000;
    const float* rows = unit_rows(count).data();
    measure(state, count, dim * sizeof(float), [&] {
        Centroid centroid(dim);
        for (std::size_t row = 0; row < count; ++row) centroid.update(rows + row * dim);
        benchmark::DoNotOptimize(centroid.mean().data());
    });
}

void welford_rows(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    const float* rows = unit_rows(count).data();
    measure(state, count, dim * sizeof(float), [&] {
        Centroid centroid(dim);
        centroid.update(rows, count);
        benchmark::DoNotOptimize(centroid.mean().data());
    });
}

void rows_with_tags(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const std::vector<TagId> wanted = {1, 3, 6};
    measure(state, million, sizeof(std::uint64_t) + sizeof(std::uint8_t),
            [&] { benchmark::DoNotOptimize(table.rows_with_tags(wanted)); });
}

void rows_with_an_unused_tag(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const std::vector<TagId> wanted = {1, 3, 40};
    measure(state, million, sizeof(std::uint64_t) + sizeof(std::uint8_t),
            [&] { benchmark::DoNotOptimize(table.rows_with_tags(wanted)); });
}

void mark_rows(benchmark::State& state) {
    const TraceTable& table = traces(million);
    const auto bounds = table.bonus_bounds(now);
    const auto columns = table.columns();
    std::vector<std::uint64_t> words(million / 64 + 1);
    measure(state, million, sizeof(std::uint8_t) + 2 * sizeof(std::uint16_t), [&] {
        active_kernels().mark_rows(columns.flags, TraceTable::flashbulb, bounds->vividness.data(),
                                   bounds->recency.data(), million, 0.3F * bonus_bound_step,
                                   0.1F * bonus_bound_step, 0.3F, words.data());
        benchmark::DoNotOptimize(words.data());
    });
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
    set_threads(1);
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
        add("mark_rows", level, mark_rows);
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
