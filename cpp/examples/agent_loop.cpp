// The memory of an agent, embedded in a C++ program: no Python, no FAISS, vectors of your own.
// Sixty days of messages pass by; then the agent asks what it should know. Every step says what it
// expects, and the program fails if that is not what happens.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "flashbulb/search.hpp"
#include "flashbulb/suppression.hpp"
#include "flashbulb/traces.hpp"
#include "flashbulb/views.hpp"
#include "flashbulb/welford.hpp"

namespace {

constexpr std::size_t dim = 256;
constexpr double day = 86'400.0;  // times are seconds since the epoch; this story starts at 0

void expect(bool met, const char* what) {
    std::printf("  %s %s\n", met ? "ok:" : "NOT MET:", what);
    if (!met) std::exit(EXIT_FAILURE);
}

// A toy in place of an embedding model: every word adds a pattern of signs that its hash chooses,
// so texts are close if they share words. Use a real model; the rest stays as it is.
std::vector<float> toy_embedding(const std::string& text) {
    std::vector<float> sum(dim, 0.0F);
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto add_word = [&] {
        for (float& value : sum) {
            hash = hash * 6364136223846793005 + 1442695040888963407;
            value += (hash >> 63) != 0 ? 1.0F : -1.0F;
        }
    };
    bool in_word = false;
    for (const char each : text + ' ') {
        const auto letter = static_cast<unsigned char>(each);
        if (std::isalnum(letter) != 0) {
            if (!in_word) hash = 0xcbf29ce484222325;
            hash = (hash ^ static_cast<std::uint64_t>(std::tolower(letter))) * 0x100000001b3;
            in_word = true;
        } else if (std::exchange(in_word, false)) {
            add_word();
        }
    }
    std::vector<float> unit(dim);
    if (flashbulb::normalize_rows(sum.data(), 1, dim, unit.data()) != 1) {
        throw std::invalid_argument("a text without words has no embedding: '" + text + "'");
    }
    return unit;
}

// Row r of the vectors, of the traces and of the texts are one memory. Its id is r here, too, since
// nothing is ever compacted.
class AgentMemory {
public:
    /// @return how surprising the text is in this stream, in standard deviations
    double remember(const std::string& text, double salience, double now) {
        const std::vector<float> vector = toy_embedding(text);
        const double z = surprise(vector);

        flashbulb::Trace trace;
        trace.id = traces_.next_id();
        trace.salience = salience;
        trace.floor = traces_.policy().floor_for(salience);
        trace.created = now;
        trace.vividness_time = now;
        trace.pinned = z >= traces_.policy().surprise_threshold;  // does not fade until unpinned
        traces_.append({&trace, 1}, {});
        vectors_.insert(vectors_.end(), vector.begin(), vector.end());
        texts_.push_back(text);
        return z;
    }

    /// The exact k best by similarity, vividness and recency together, or by similarity alone.
    flashbulb::SearchResult recall(const std::string& text, std::size_t k, double now,
                                   bool similarity_alone = false) {
        const std::vector<float> query = toy_embedding(text);
        flashbulb::SearchRequest request;
        request.queries = query.data();
        request.query_count = 1;
        request.k = k;
        request.now = now;
        request.vividness_weight = similarity_alone ? 0.0 : traces_.policy().vividness_weight;
        request.recency_weight = similarity_alone ? 0.0 : traces_.policy().recency_weight;
        // The agent asks what went wrong: what is alarming may lead though others are more similar.
        request.vividness_ramp_start = 0.0;
        request.vividness_ramp_end = 0.1;
        return flashbulb::search(view(), traces_, request);
    }

    /// What the agent used grows stronger, and its close competitors weaker.
    /// @return the rows that grew weaker
    std::vector<std::size_t> use(std::size_t row, double now) {
        traces_.touch(row, now);
        return flashbulb::suppress(view(), traces_, {&row, 1}, std::nullopt, now);
    }

    flashbulb::TraceTable& traces() { return traces_; }
    const std::string& text(std::int64_t id) const { return texts_.at(traces_.find(id).value()); }
    std::size_t row(const std::string& text) const {
        return static_cast<std::size_t>(std::find(texts_.begin(), texts_.end(), text) -
                                        texts_.begin());
    }

private:
    // Scored before it is learned, so that an event does not hide itself.
    double surprise(const std::vector<float>& vector) {
        const flashbulb::Policy& policy = traces_.policy();
        const double distance = centroid_.distance(vector.data());
        double z = 0.0;
        if (distances_.count >= policy.surprise_min_samples) {
            const double least = policy.surprise_relative_sd_floor * distances_.mean;
            z = (distance - distances_.mean) / std::max(std::sqrt(distances_.variance()), least);
        }
        if (centroid_.count() > 0) distances_.update(distance);
        centroid_.update(vector.data());
        return z;
    }

    // A view owns nothing, and the vectors may move when they grow: made anew for every call.
    flashbulb::VectorView view() {
        return flashbulb::VectorView({{vectors_.data(), 0, texts_.size()}}, dim);
    }

    flashbulb::TraceTable traces_{flashbulb::Policy{}};
    std::vector<float> vectors_;
    std::vector<std::string> texts_;
    flashbulb::Centroid centroid_{dim};
    flashbulb::Moments distances_;
};

const std::string loss = "the payments service lost orders";
const std::string quake = "violent earthquake near both data centres";
const std::string last_build = "nightly build 59 of the shop passed";

void live_for_sixty_days(AgentMemory& memory) {
    std::printf("Sixty days of messages\n");
    double routine_z = 0.0;
    double quake_z = 0.0;
    for (int i = 0; i < 60; ++i) {
        const std::string number = std::to_string(i);
        for (const std::string& text : {"the payments page has a new colour, ticket " + number,
                                        "nightly build " + number + " of the shop passed"}) {
            routine_z = std::max(routine_z, memory.remember(text, 0.1, i * day));
        }
        if (i == 10) memory.remember(loss, 0.9, i * day);
        if (i == 30) quake_z = memory.remember(quake, 0.3, i * day);
    }
    std::printf("  standard deviations: routine at most %.1f, earthquake %.1f\n", routine_z,
                quake_z);
    const double threshold = memory.traces().policy().surprise_threshold;
    expect(routine_z < threshold && quake_z >= threshold, "the earthquake alone is a surprise");
}

void recall_what_matters(AgentMemory& memory, double now) {
    const std::string question = "what happened with the payments page?";
    std::printf("\nFifty days after the loss: \"%s\"\n", question.c_str());
    const auto print = [&](const char* title, const flashbulb::SearchResult& found) {
        std::printf("  by %s\n", title);
        for (std::size_t i = 0; i < found.k; ++i) {
            std::printf("    %.2f = %.2f + %.2f + %.2f  %s\n", found.scores[i],
                        found.similarities[i], found.vividness_bonus[i], found.recency_bonus[i],
                        memory.text(found.ids[i]).c_str());
        }
    };
    const flashbulb::SearchResult similar = memory.recall(question, 3, now, true);
    const flashbulb::SearchResult found = memory.recall(question, 3, now);
    print("similarity alone", similar);
    print("similarity + vividness + recency", found);
    expect(memory.text(similar.ids[0]) != loss, "a new colour is most similar");
    expect(memory.text(found.ids[0]) == loss, "the loss comes first when all counts");
}

void strengthen_what_is_used(AgentMemory& memory, double now) {
    std::printf("\nThe agent uses \"%s\"\n", last_build.c_str());
    const std::size_t used = memory.row(last_build);
    const std::size_t rival = memory.row("nightly build 58 of the shop passed");
    const auto vividness = [&](std::size_t row) {
        return memory.traces().vividness(row, now, false);
    };
    const double used_before = vividness(used);
    const double rival_before = vividness(rival);
    const std::size_t weakened = memory.use(used, now).size();
    std::printf(
        "  it went from %.2f to %.2f; of %zu that grew weaker, build 58 from %.2f to %.2f\n",
        used_before, vividness(used), weakened, rival_before, vividness(rival));
    expect(vividness(used) > used_before, "what was used is stronger");
    expect(vividness(rival) < rival_before, "its closest competitor is weaker");
}

void fade(AgentMemory& memory, double now) {
    std::printf("\nA year later\n");
    flashbulb::TraceTable& traces = memory.traces();
    const auto vividness = [&](const std::string& text) {
        return traces.vividness(memory.row(text), now, false);
    };
    for (const std::string& text : {last_build, loss, quake}) {
        std::printf("  vividness %.2f  %s\n", vividness(text), text.c_str());
    }
    expect(vividness(last_build) < 0.01, "the routine is forgotten");
    expect(vividness(loss) == traces.policy().flashbulb_floor, "what was alarming has a floor");
    expect(vividness(quake) == 1.0, "what is pinned does not fade");

    // Decay is derived whenever it is read. Writing it down moves the anchors and no value.
    const std::vector<double> before = traces.all_vividness(now + day);
    traces.materialize_decay(now);
    const std::vector<double> after = traces.all_vividness(now + day);
    expect(std::equal(before.begin(), before.end(), after.begin(), after.end(),
                      [](double a, double b) { return std::abs(a - b) < 1e-12; }),
           "decay in one step or in two is the same");
}

}  // namespace

int main() {
    AgentMemory memory;
    live_for_sixty_days(memory);
    recall_what_matters(memory, 60 * day);
    strengthen_what_is_used(memory, 60 * day);
    fade(memory, 425 * day);
}
