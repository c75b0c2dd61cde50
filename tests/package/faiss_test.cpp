// The adapter for FAISS: what the core finds over the rows of an index is what FAISS itself finds,
// plus the bonus; and an index that cannot be read in place is refused by a clear name.

#include <faiss/IndexIVFPQ.h>
#include <faiss/IndexPQ.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "flashbulb/approximate.hpp"
#include "flashbulb/faiss.hpp"
#include "flashbulb/search.hpp"
#include "flashbulb/sketch.hpp"
#include "flashbulb/traces.hpp"

namespace {

using flashbulb::FaissRows;

constexpr int dim = 40;  // no multiple of 16
constexpr std::size_t rows = 700;
constexpr double day = 86'400.0;
constexpr double now = 100 * day;

std::vector<float> unit_rows(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count * dim);
    for (float& value : values) value = normal(random);
    EXPECT_EQ(flashbulb::normalize_rows(values.data(), count, dim, values.data()), count);
    return values;
}

// The published score, without ramps.
flashbulb::TraceTable traces_of(std::size_t count) {
    flashbulb::Policy policy;
    policy.vividness_ramp_end = policy.vividness_ramp_start;
    policy.recency_ramp_end = policy.recency_ramp_start;
    flashbulb::TraceTable traces(policy);
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform;
    for (std::size_t row = 0; row < count; ++row) {
        flashbulb::Trace trace;
        trace.id = static_cast<std::int64_t>(row);
        trace.salience = uniform(random);
        trace.floor = policy.floor_for(trace.salience);
        trace.created = trace.vividness_time = uniform(random) * now;
        traces.append({&trace, 1}, {});
    }
    return traces;
}

double bonus(const flashbulb::TraceTable& traces, std::size_t row) {
    const flashbulb::Policy& policy = traces.policy();
    const flashbulb::Trace trace = traces.trace(row);
    const double days = (now - trace.created) / day;
    return policy.vividness_weight * traces.vividness(row, now, true) * trace.salience +
           policy.recency_weight * std::exp(-days / policy.recency_days);
}

// FAISS sums in float32, in an order of its own: `tolerance` is what that leaves open.
void expect_what_faiss_finds_plus_bonus(faiss::Index& index, double tolerance) {
    constexpr std::size_t k = 10;
    const std::vector<float> query = unit_rows(1, 99);
    const flashbulb::TraceTable traces = traces_of(rows);
    const FaissRows adapter(index);
    flashbulb::SearchRequest request;
    request.queries = query.data();
    request.query_count = 1;
    request.k = k;
    request.now = now;
    const flashbulb::SearchResult found = flashbulb::search(adapter.view(), traces, request);
    ASSERT_EQ(found.k, k);

    flashbulb::Sketch sketch(dim);
    sketch.extend(adapter.view());
    request.sketch = &sketch;
    const flashbulb::SearchResult by_sketch = flashbulb::search(adapter.view(), traces, request);
    EXPECT_EQ(by_sketch.ids, found.ids);
    EXPECT_EQ(by_sketch.scores, found.scores);

    std::vector<float> values(rows);
    std::vector<std::int64_t> labels(rows);
    index.search(1, query.data(), static_cast<std::int64_t>(rows), values.data(), labels.data());
    std::vector<double> by_row(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        const auto row = static_cast<std::size_t>(labels[i]);
        ASSERT_LT(row, rows);
        const double similarity = index.metric_type == faiss::METRIC_L2
                                      ? 1.0 - static_cast<double>(values[i]) / 2.0
                                      : static_cast<double>(values[i]);
        by_row[row] = similarity + bonus(traces, row);
    }
    std::vector<double> ranked = by_row;
    std::sort(ranked.begin(), ranked.end(), std::greater<>());
    for (std::size_t i = 0; i < k; ++i) {
        EXPECT_NEAR(found.scores[i], ranked[i], tolerance) << i;
        EXPECT_NEAR(found.scores[i], by_row[static_cast<std::size_t>(found.ids[i])], tolerance)
            << i;
    }
}

// A decoded value differs from what FAISS decodes by rounding only.
void expect_the_rows_of_faiss(faiss::Index& index, double tolerance) {
    const FaissRows adapter(index);
    ASSERT_EQ(adapter.view().rows(), rows);
    std::vector<float> scratch(dim), expected(dim);
    for (std::size_t row = 0; row < rows; ++row) {
        const float* got = adapter.view().fetch(row, scratch.data());
        index.reconstruct(static_cast<std::int64_t>(row), expected.data());
        for (std::size_t i = 0; i < dim; ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << row;
    }
}

TEST(FaissRowsTest, FlatIndexes) {
    const std::vector<float> vectors = unit_rows(rows, 1);
    faiss::IndexFlat flat(dim, faiss::METRIC_INNER_PRODUCT);
    faiss::IndexFlatIP ip(dim);
    faiss::IndexFlatL2 l2(dim);
    for (faiss::Index* index : std::initializer_list<faiss::Index*>{&flat, &ip, &l2}) {
        index->add(rows, vectors.data());
        expect_what_faiss_finds_plus_bonus(*index, 1e-5);
    }
}

TEST(FaissRowsTest, ScalarQuantizers) {
    const std::vector<float> vectors = unit_rows(rows, 2);
    using Quantizer = faiss::ScalarQuantizer;
    for (const auto type : {Quantizer::QT_fp16, Quantizer::QT_8bit, Quantizer::QT_8bit_uniform}) {
        faiss::IndexScalarQuantizer index(dim, type, faiss::METRIC_INNER_PRODUCT);
        index.train(rows, vectors.data());
        index.add(rows, vectors.data());
        expect_the_rows_of_faiss(index, 1e-6);
        expect_what_faiss_finds_plus_bonus(index, 1e-5);
    }
}

TEST(FaissRowsTest, GraphsOverFlatAndQuantizedRows) {
    const std::vector<float> vectors = unit_rows(rows, 3);
    faiss::IndexHNSWFlat flat(dim, 8, faiss::METRIC_INNER_PRODUCT);
    faiss::IndexHNSWSQ quantized(dim, faiss::ScalarQuantizer::QT_fp16, 8,
                                 faiss::METRIC_INNER_PRODUCT);
    for (faiss::IndexHNSW* index : std::initializer_list<faiss::IndexHNSW*>{&flat, &quantized}) {
        index->train(rows, vectors.data());
        index->add(rows, vectors.data());
        expect_the_rows_of_faiss(*index, 0.0);
        // The graph need not reach every row, but it must not be what is read.
        const FaissRows by_graph(*index);
        const FaissRows by_storage(*index->storage);
        EXPECT_EQ(by_graph.view().segments().at(0).data, by_storage.view().segments().at(0).data);
        expect_what_faiss_finds_plus_bonus(*index->storage, 1e-5);
    }
}

TEST(FaissRowsTest, InvertedLists) {
    const std::vector<float> vectors = unit_rows(rows, 4);
    faiss::IndexFlatIP coarse(dim);
    faiss::IndexIVFFlat index(&coarse, dim, 16, faiss::METRIC_INNER_PRODUCT);
    index.train(rows, vectors.data());
    index.add(rows, vectors.data());
    index.make_direct_map();
    expect_the_rows_of_faiss(index, 0.0);
    index.nprobe = index.nlist;
    expect_what_faiss_finds_plus_bonus(index, 1e-5);
    // A moved adapter still knows where the rows are.
    FaissRows first(index);
    const FaissRows second = std::move(first);
    std::vector<float> scratch(dim);
    for (std::size_t row = 0; row < rows; ++row) {
        const float* got = second.view().fetch(row, scratch.data());
        ASSERT_TRUE(std::equal(got, got + dim, vectors.data() + row * dim)) << row;
    }
}

// Without a bonus, the best of so many lists are what FAISS finds in them.
TEST(FaissRowsTest, ListsForApproximateSearches) {
    const std::vector<float> vectors = unit_rows(rows, 8);
    const std::vector<float> queries = unit_rows(5, 9);
    constexpr std::size_t k = 6;
    flashbulb::TraceTable traces{flashbulb::Policy{}};
    for (std::size_t row = 0; row < rows; ++row) {
        flashbulb::Trace trace;
        trace.id = static_cast<std::int64_t>(row);
        traces.append({&trace, 1}, {});
    }
    flashbulb::SearchRequest request;
    request.queries = queries.data();
    request.query_count = 5;
    request.k = k;
    request.vividness_weight = request.recency_weight = 0.0;
    for (const auto metric : {faiss::METRIC_INNER_PRODUCT, faiss::METRIC_L2}) {
        faiss::IndexFlat coarse(dim, metric);
        faiss::IndexIVFFlat index(&coarse, dim, 16, metric);
        index.train(rows, vectors.data());
        index.add(rows, vectors.data());
        const FaissRows adapter(index);
        const flashbulb::Partition partition = adapter.partition();
        ASSERT_EQ(partition.rows(), rows);
        for (const std::size_t lists : {1U, 3U, 16U}) {
            index.nprobe = lists;
            std::vector<float> values(5 * k);
            std::vector<std::int64_t> labels(5 * k);
            index.search(5, queries.data(), k, values.data(), labels.data());
            const auto found =
                flashbulb::search_nearby(adapter.view(), traces, request, {&partition, lists, 0});
            EXPECT_EQ(found.ids, labels) << lists;
        }
        index.add(1, vectors.data());
        EXPECT_THROW((void)adapter.partition(), std::logic_error);
    }
    faiss::IndexFlatIP flat(dim);
    EXPECT_THROW((void)FaissRows(flat).partition(), std::invalid_argument);
    faiss::IndexFlat other_metric(dim, faiss::METRIC_L1);
    faiss::IndexIVFFlat by_other_metric(&other_metric, dim, 4, faiss::METRIC_INNER_PRODUCT);
    EXPECT_THROW((void)FaissRows(by_other_metric).partition(), std::invalid_argument);
}

TEST(FaissRowsTest, AnEmptyIndexHasNoRows) {
    faiss::IndexFlatIP index(dim);
    EXPECT_EQ(FaissRows(index).view().rows(), 0U);
}

void expect_refused(faiss::Index& index, const std::string& part) {
    try {
        const FaissRows adapter(index);
        ADD_FAILURE() << "accepted, expected: " << part;
    } catch (const std::invalid_argument& error) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
}

TEST(FaissRowsTest, RefusesWhatItCannotReadInPlace) {
    const std::vector<float> vectors = unit_rows(rows, 5);
    faiss::IndexFlat other_metric(dim, faiss::METRIC_L1);
    expect_refused(other_metric, "expected metric inner product or L2, got metric type 2");

    faiss::IndexPQ codes(dim, 4, 4);
    expect_refused(codes, "expected an IndexFlat");
    faiss::IndexFlat1D subclass(true);
    expect_refused(subclass, "expected an IndexFlat");
    faiss::IndexScalarQuantizer four_bits(dim, faiss::ScalarQuantizer::QT_4bit);
    expect_refused(four_bits, "QT_8bit_uniform, got type 1");

    faiss::IndexFlatIP long_row(dim);
    long_row.add(rows, vectors.data());
    long_row.get_xb()[3 * dim + 1] += 2.0F;
    expect_refused(long_row, "row 3 of the FAISS index does not have norm 1");

    faiss::IndexFlatIP torn(dim);
    torn.add(rows, vectors.data());
    torn.ntotal -= 1;
    expect_refused(torn, "expected 111840 bytes, got 112000");

    // Newer versions of FAISS may read rows that belong to somebody else.
    const auto refuse_borrowed = [](auto& index, void* address) {
        using Codes = decltype(index.codes);
        if constexpr (requires { Codes::create_view(address, 0, nullptr); }) {
            index.codes = Codes::create_view(address, index.codes.size(), nullptr);
            expect_refused(index, "expected an index that owns its rows");
        }
    };
    faiss::IndexFlatIP borrowed(dim);
    borrowed.add(rows, vectors.data());
    std::vector<float> elsewhere = vectors;
    refuse_borrowed(borrowed, elsewhere.data());

    faiss::IndexFlatL2 coarse(dim);
    faiss::IndexIVFFlat own_labels(&coarse, dim, 4);
    own_labels.train(rows, vectors.data());
    std::vector<std::int64_t> labels(rows, 5);
    own_labels.add_with_ids(rows, vectors.data(), labels.data());
    expect_refused(own_labels, "once each, as `add` gives them, got 5");
}

TEST(FaissRowsTest, NoticesThatRowsWereAdded) {
    const std::vector<float> vectors = unit_rows(rows, 6);
    faiss::IndexFlatIP index(dim);
    index.add(rows - 1, vectors.data());
    const FaissRows adapter(index);
    EXPECT_EQ(adapter.view().rows(), rows - 1);
    index.add(1, vectors.data());
    EXPECT_THROW((void)adapter.view(), std::logic_error);
    EXPECT_EQ(FaissRows(index).view().rows(), rows);
}

}  // namespace
