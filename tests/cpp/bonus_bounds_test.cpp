#include "flashbulb/bonus_bounds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "dispatch.hpp"
#include "flashbulb/rw_lock.hpp"
#include "parameters.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::below;
using testing::day;
using testing::Random;
using testing::start_of_time;
using testing::uniform;

// How far a fresh bound may lie above the factor: rounding up to a step, and 1e-6 of exp's slack
// with its error and that of bonus_bound_step.
constexpr double fresh = 1.0 / 65535.0 + 3e-6;

struct Factors {
    std::vector<double> vividness;
    std::vector<double> recency;
};

Factors factors_of(const TraceTable& table, double now) {
    Factors factors{std::vector<double>(table.rows()), std::vector<double>(table.rows())};
    active_kernels().bonus(law_columns(table.columns()), 0, table.rows(),
                           law_parameters(table.policy(), now, 1.0, 1.0), factors.vividness.data(),
                           factors.recency.data());
    return factors;
}

double in_double(std::uint16_t code) {
    return static_cast<double>(code) * static_cast<double>(bonus_bound_step);
}

bool covers(std::uint16_t code, double factor) {
    const float in_float = static_cast<float>(code) * bonus_bound_step;
    return in_double(code) >= factor && static_cast<double>(in_float) >= factor;
}

void expect_covers(const TraceTable& table, const BonusBounds& bounds, double now) {
    const Factors factors = factors_of(table, now);
    ASSERT_EQ(bounds.vividness.size(), table.rows());
    ASSERT_EQ(bounds.recency.size(), table.rows());
    for (std::size_t row = 0; row < table.rows(); ++row) {
        EXPECT_TRUE(covers(bounds.vividness[row], factors.vividness[row]))
            << row << ": " << bounds.vividness[row] << " " << factors.vividness[row];
        EXPECT_TRUE(covers(bounds.recency[row], factors.recency[row]))
            << row << ": " << bounds.recency[row] << " " << factors.recency[row];
    }
}

void expect_close(const TraceTable& table, const BonusBounds& bounds, double now) {
    const Factors factors = factors_of(table, now);
    for (std::size_t row = 0; row < table.rows(); ++row) {
        EXPECT_LE(in_double(bounds.vividness[row]), factors.vividness[row] + fresh) << row;
        EXPECT_LE(in_double(bounds.recency[row]), factors.recency[row] + fresh) << row;
    }
}

TraceTable random_table(Random& random, std::size_t count, const Policy& policy = {}) {
    return testing::random_store(random, count, 2, start_of_time, policy).traces;
}

void change_something(Random& random, TraceTable& table, double now) {
    const std::size_t row = below(random, table.rows());
    switch (below(random, 6)) {
        case 0:
            table.touch(row, now);
            break;
        case 1:
            table.suppress(row, uniform(random, 0.7, 1.0), now);
            break;
        case 2:
            if (table.trace(row).status != TaskStatus::not_a_task) table.complete(row, now);
            break;
        case 3:
            table.pin(row, now);
            break;
        case 4:
            table.unpin(row, now);
            break;
        default:
            table.remove(row);
            break;
    }
}

std::vector<Policy> policies() {
    std::vector<Policy> all;
    for (const DecayLaw law : {DecayLaw::clamp, DecayLaw::asymptotic}) {
        Policy policy;
        policy.decay_law = law;
        all.push_back(policy);
        policy.strength_interval_seconds = 0.0;
        policy.decay_rate_per_day = 50.0;
        policy.asymptotic_decay_rate_per_day = 40.0;
        policy.recency_days = 0.01;
        all.push_back(policy);
    }
    return all;
}

class BonusBoundsAtLevel : public testing::EverySimdLevel {};

TEST_P(BonusBoundsAtLevel, CoverEveryLaterMomentAndAreCloseAtFirst) {
    Random random(1);
    for (const Policy& policy : policies()) {
        for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 63U, 64U, 65U, 500U}) {
            const TraceTable table = random_table(random, count, policy);
            const double now = start_of_time + uniform(random, -30.0, 30.0) * day;
            const auto bounds = table.bonus_bounds(now);
            ASSERT_NE(bounds, nullptr);
            EXPECT_EQ(bounds->from, now);
            expect_close(table, *bounds, now);
            for (const double later : {0.0, 1e-7, 1.0, 3600.0, day, 20.0 * day, 9e4 * day}) {
                expect_covers(table, *bounds, now + later);
            }
            expect_covers(table, *bounds, now + std::exp(uniform(random, -5.0, 20.0)));
        }
    }
}

TEST_P(BonusBoundsAtLevel, ChangesLeaveWhatANewComputationWouldGive) {
    Random random(2);
    for (const Policy& policy : policies()) {
        TraceTable table = random_table(random, 65, policy);
        const auto bounds = table.bonus_bounds(start_of_time);
        ASSERT_NE(bounds, nullptr);
        for (int round = 0; round < 300; ++round) {
            // Also at moments before the bounds, from a clock that steps back.
            const double now = start_of_time + uniform(random, -5.0, 50.0) * day;
            change_something(random, table, now);
            if (round % 20 == 0) {
                const std::vector<Trace> more = {
                    testing::random_trace(random, table.next_id(), now),
                    testing::random_trace(random, table.next_id() + 1, now)};
                table.append(more, {});
            }
            std::vector<std::uint16_t> vividness(table.rows()), recency(table.rows());
            active_kernels().bonus_bounds(law_columns(table.columns()), 0, table.rows(),
                                          law_parameters(policy, start_of_time, 1.0, 1.0),
                                          vividness.data(), recency.data());
            ASSERT_EQ(bounds->vividness, vividness) << round;
            ASSERT_EQ(bounds->recency, recency) << round;
            expect_covers(table, *bounds, start_of_time + std::exp(uniform(random, 0.0, 18.0)));
        }
    }
}

TEST_P(BonusBoundsAtLevel, WhatChangesEveryRowIsFollowedByNewBounds) {
    Random random(3);
    for (const Policy& policy : policies()) {
        TraceTable table = random_table(random, 200, policy);
        const double now = start_of_time + day;
        ASSERT_NE(table.bonus_bounds(now), nullptr);
        table.materialize_decay(now + 3.0 * day);
        expect_covers(table, *table.bonus_bounds(now), now);
        table.compact();
        expect_covers(table, *table.bonus_bounds(now), now);
        Policy other = policy;
        other.decay_rate_per_day = 0.001;
        other.asymptotic_decay_rate_per_day = 0.001;
        other.recency_days = 1000.0;
        table.set_policy(other);
        expect_covers(table, *table.bonus_bounds(now), now);
        expect_close(table, *table.bonus_bounds(now), now);
    }
}

TEST_P(BonusBoundsAtLevel, TheLimitsOfTheCodesAreExact) {
    std::vector<Trace> traces(3);
    for (std::size_t i = 0; i < traces.size(); ++i) {
        traces[i].id = static_cast<std::int64_t>(i);
        traces[i].created = traces[i].vividness_time = start_of_time;
    }
    traces[0].salience = 1.0;
    traces[2].salience = 1e-300;  // above zero, however little
    TraceTable table{Policy{}};
    table.append(traces, {});
    const auto bounds = table.bonus_bounds(start_of_time);
    EXPECT_EQ(bounds->vividness, (std::vector<std::uint16_t>{65535, 0, 1}));
    EXPECT_EQ(bounds->recency, (std::vector<std::uint16_t>{65535, 65535, 65535}));
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(BonusBoundsAtLevel);

TEST(BonusBoundsTest, TheStepIsRoundedUpForEveryCode) {
    for (int code = 0; code <= 65535; ++code) {
        const auto narrow = static_cast<std::uint16_t>(code);
        const double exact = code / 65535.0;
        EXPECT_TRUE(covers(narrow, exact));
        EXPECT_LE(in_double(narrow), exact * (1.0 + 0x1p-21));
    }
}

TEST(BonusBoundsTest, AreKeptUntilAThousandthIsLost) {
    Random random(4);
    const TraceTable table = random_table(random, 100);
    const auto first = table.bonus_bounds(start_of_time);
    const double patience = 0.001 / 0.1 * day;
    EXPECT_EQ(table.bonus_bounds(start_of_time + 0.99 * patience), first);
    const double later = start_of_time + 1.01 * patience;
    const auto second = table.bonus_bounds(later);
    EXPECT_NE(second, first);
    EXPECT_EQ(second->from, later);
    EXPECT_EQ(first->from, start_of_time);  // whoever still reads the first ones may go on
    EXPECT_EQ(table.bonus_bounds(later), second);
}

TEST(BonusBoundsTest, LookingBackDoesNotDropThemButStayingThereDoes) {
    Random random(5);
    const TraceTable table = random_table(random, 100);
    const auto present = table.bonus_bounds(start_of_time);
    for (int round = 0; round < 100; ++round) {
        EXPECT_EQ(table.bonus_bounds(start_of_time - day), nullptr);
        EXPECT_EQ(table.bonus_bounds(start_of_time), present);
    }
    int without = 0;
    while (table.bonus_bounds(start_of_time - day) == nullptr && without < 1000) ++without;
    EXPECT_GT(without, 5);
    EXPECT_LT(without, 1000);
    EXPECT_EQ(table.bonus_bounds(start_of_time - day)->from, start_of_time - day);
}

TEST(BonusBoundsTest, ATimeThatIsNoneHasNoBounds) {
    Random random(6);
    const TraceTable table = random_table(random, 10);
    for (const double now : {none, std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
        for (int round = 0; round < 50; ++round) EXPECT_EQ(table.bonus_bounds(now), nullptr);
    }
}

TEST(BonusBoundsTest, ACopyIsOnItsOwn) {
    Random random(7);
    TraceTable table = random_table(random, 50);
    const auto bounds = table.bonus_bounds(start_of_time);
    TraceTable copy = table;
    EXPECT_NE(copy.bonus_bounds(start_of_time), bounds);
    const auto before = bounds->vividness;
    for (std::size_t row = 0; row < copy.rows(); ++row) copy.pin(row, start_of_time);
    EXPECT_EQ(bounds->vividness, before);
    expect_covers(copy, *copy.bonus_bounds(start_of_time), start_of_time);
    copy = table;
    expect_close(copy, *copy.bonus_bounds(start_of_time), start_of_time);
}

// Readers at different moments, who now and then need new bounds, beside a writer.
TEST(BonusBoundsTest, ReadersAndAWriterSeeBoundsThatHold) {
    Random random(8);
    TraceTable table = random_table(random, 300);
    RwLock lock;
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::atomic<int> looks{0};
    std::vector<std::thread> readers;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        readers.emplace_back([&, seed] {
            Random own(100 + seed);
            while (!done) {
                const std::shared_lock guard(lock);
                const double now = start_of_time + uniform(own, 0.0, 4.0 * 3600.0);
                if (const auto bounds = table.bonus_bounds(now)) {
                    const Factors factors = factors_of(table, now);
                    if (bounds->from > now || bounds->recency.size() != table.rows()) ++wrong;
                    for (std::size_t row = 0; row < table.rows(); ++row) {
                        if (!covers(bounds->vividness[row], factors.vividness[row]) ||
                            !covers(bounds->recency[row], factors.recency[row])) {
                            ++wrong;
                        }
                    }
                    ++looks;
                }
            }
        });
    }
    for (int round = 0; round < 200 || looks < 100; ++round) {
        const std::scoped_lock guard(lock);
        const double now = start_of_time + uniform(random, 0.0, 8.0 * 3600.0);
        for (int i = 0; i < 10; ++i) change_something(random, table, now);
        const Trace more = testing::random_trace(random, table.next_id(), now);
        table.append(std::vector<Trace>{more}, {});
        if (round % 20 == 0) table.materialize_decay(now);
        if (round % 40 == 0) table.compact();
    }
    done = true;
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace flashbulb
