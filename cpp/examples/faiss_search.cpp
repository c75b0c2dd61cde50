// A program that has a FAISS index already gives its rows a memory: FAISS keeps the vectors and
// finds what is similar, Flashbulb reads them where they lie and finds what matters.

#include <faiss/IndexFlat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "flashbulb/faiss.hpp"
#include "flashbulb/search.hpp"
#include "flashbulb/sketch.hpp"
#include "flashbulb/traces.hpp"

namespace {

constexpr std::size_t dim = 64;
constexpr std::size_t rows = 20'000;
constexpr std::size_t k = 10;
constexpr double day = 86'400.0;

// Unit vectors around twenty topics.
std::vector<float> topical_vectors() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> topics(20 * dim);
    for (float& value : topics) value = normal(random);
    std::vector<float> vectors(rows * dim);
    for (std::size_t row = 0; row < rows; ++row) {
        const float* topic = topics.data() + random() % 20 * dim;
        for (std::size_t i = 0; i < dim; ++i) {
            vectors[row * dim + i] = topic[i] + normal(random);
        }
    }
    if (flashbulb::normalize_rows(vectors.data(), rows, dim, vectors.data()) != rows) std::abort();
    return vectors;
}

}  // namespace

int main() {
    const std::vector<float> vectors = topical_vectors();
    faiss::IndexFlatIP index(dim);
    index.add(static_cast<std::int64_t>(rows), vectors.data());

    // One trace a row; one row in fifty was an emergency. FAISS's labels serve as ids.
    flashbulb::TraceTable traces{flashbulb::Policy{}};
    std::vector<flashbulb::Trace> all(rows);
    for (std::size_t row = 0; row < rows; ++row) {
        all[row].id = static_cast<std::int64_t>(row);
        all[row].salience = row % 50 == 0 ? 0.9 : 0.1;
        all[row].floor = traces.policy().floor_for(all[row].salience);
        all[row].created = all[row].vividness_time = static_cast<double>(row % 365) * day;
    }
    traces.append(all, {});

    const flashbulb::FaissRows faiss_rows(index);  // void as soon as the index changes
    const float* query = vectors.data();           // what is like the first row?
    flashbulb::SearchRequest request;
    request.queries = query;
    request.query_count = 1;
    request.k = k;
    request.now = 365 * day;
    const flashbulb::SearchResult found = flashbulb::search(faiss_rows.view(), traces, request);

    std::printf("exact fused top %zu of %zu rows\n", found.k, rows);
    for (std::size_t i = 0; i < found.k; ++i) {
        std::printf("  %.2f = %.2f similarity + %.2f vividness + %.2f recency  row %lld\n",
                    found.scores[i], found.similarities[i], found.vividness_bonus[i],
                    found.recency_bonus[i], static_cast<long long>(found.ids[i]));
    }

    // A sketch, kept up to date with the rows, makes large stores faster and changes no bit.
    flashbulb::Sketch sketch(dim);
    sketch.extend(faiss_rows.view());
    request.sketch = &sketch;
    const flashbulb::SearchResult again = flashbulb::search(faiss_rows.view(), traces, request);
    if (again.ids != found.ids || again.scores != found.scores) return EXIT_FAILURE;

    // The usual way, to fetch more by similarity and to rank those again, finds only some of them.
    std::size_t kept = 0;
    for (const std::size_t fetched : {k, 10 * k, 100 * k, rows}) {
        std::vector<float> cosines(fetched);
        std::vector<std::int64_t> labels(fetched);
        index.search(1, query, static_cast<std::int64_t>(fetched), cosines.data(), labels.data());
        kept = static_cast<std::size_t>(
            std::count_if(found.ids.begin(), found.ids.end(), [&](std::int64_t id) {
                return std::find(labels.begin(), labels.end(), id) != labels.end();
            }));
        std::printf("of these, FAISS alone fetches %zu among its first %zu\n", kept, fetched);
        if (fetched == k && kept == k) return EXIT_FAILURE;
    }
    return kept == k ? EXIT_SUCCESS : EXIT_FAILURE;
}
