#include "flashbulb/traces.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::day;
using testing::Random;
using testing::start_of_time;

// Tolerance: the kernel's exp is within 2 ulp, the rate is a product of rounded constants, and the
// exponent (up to 40 here) multiplies the relative error of both.
constexpr double tolerance = 1e-13;

Trace simple(std::int64_t id, double salience = 0.0, double floor = 0.0) {
    Trace trace;
    trace.id = id;
    trace.salience = salience;
    trace.floor = floor;
    trace.created = start_of_time;
    trace.vividness_time = start_of_time;
    return trace;
}

TraceTable table_of(const std::vector<Trace>& traces, const Policy& policy = {}) {
    TraceTable table(policy);
    table.append(traces, {});
    return table;
}

Policy without_interval() {
    Policy policy;
    policy.strength_interval_seconds = 0.0;
    return policy;
}

double anchor_of(const TraceTable& table, std::size_t row = 0) {
    return table.trace(row).vividness;
}

// -- append --------------------------------------------------------------------------------------

TEST(TracesTest, GivesBackWhatWasAppended) {
    Trace trace = simple(5, 0.6, 0.4);
    trace.vividness = 0.9;
    trace.last_access = start_of_time + 7.0;
    trace.last_strength_change = start_of_time + 5.0;
    trace.urgency = 0.25;
    trace.status = TaskStatus::completed;
    trace.access_count = 3;
    const std::vector<std::vector<TagId>> tags = {{4, 9}};
    TraceTable table{Policy{}};
    table.append(std::vector<Trace>{trace}, tags);
    const Trace back = table.trace(0);
    EXPECT_EQ(back.id, 5);
    EXPECT_EQ(back.salience, 0.6);
    EXPECT_EQ(back.floor, 0.4);
    EXPECT_EQ(back.vividness, 0.9);
    EXPECT_EQ(back.vividness_time, start_of_time);
    EXPECT_EQ(back.created, start_of_time);
    EXPECT_EQ(back.last_access, start_of_time + 7.0);
    EXPECT_EQ(back.last_strength_change, start_of_time + 5.0);
    EXPECT_EQ(back.urgency, 0.25);
    EXPECT_EQ(back.status, TaskStatus::completed);
    EXPECT_EQ(back.access_count, 3);
    EXPECT_FALSE(back.pinned);
    EXPECT_EQ(std::vector<TagId>(table.tags(0).begin(), table.tags(0).end()), tags[0]);
    EXPECT_EQ(table.next_id(), 6);
}

TEST(TracesTest, RaisesTheAnchorToTheFloorAndPinnedOnesToOne) {
    Trace low = simple(0, 0.9, 0.7);
    low.vividness = 0.2;
    Trace pinned = simple(1);
    pinned.vividness = 0.2;
    pinned.pinned = true;
    const TraceTable table = table_of({low, pinned});
    EXPECT_EQ(anchor_of(table, 0), 0.7);
    EXPECT_EQ(anchor_of(table, 1), 1.0);
}

TEST(TracesTest, ABadTraceAnywhereChangesNothing) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const auto changed = [](auto change) {
        Trace trace = simple(12);
        change(trace);
        return trace;
    };
    const std::vector<Trace> bad = {
        changed([](Trace& t) { t.salience = -0.1; }),
        changed([](Trace& t) { t.salience = nan; }),
        changed([](Trace& t) { t.floor = 1.5; }),
        changed([](Trace& t) { t.vividness = 2.0; }),
        changed([](Trace& t) { t.vividness_time = infinity; }),
        changed([](Trace& t) { t.created = nan; }),
        changed([](Trace& t) { t.last_access = -infinity; }),
        changed([](Trace& t) { t.last_strength_change = infinity; }),
        changed([](Trace& t) { t.access_count = -1; }),
        changed([](Trace& t) { t.urgency = 0.5; }),              // not a task
        changed([](Trace& t) { t.status = TaskStatus::open; }),  // without urgency
        changed([](Trace& t) { t.id = 10; }),                    // used before
        changed([](Trace& t) { t.id = 11; }),                    // repeats
        changed([](Trace& t) { t.id = -1; }),
        changed([](Trace& t) { t.id = std::numeric_limits<std::int64_t>::max(); }),
    };
    TraceTable table = table_of({simple(10)});
    for (std::size_t i = 0; i < bad.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_THROW(table.append(std::vector<Trace>{simple(11), bad[i]}, {}),
                     std::invalid_argument);
        EXPECT_EQ(table.rows(), 1U);
        EXPECT_EQ(table.live(), 1U);
        EXPECT_EQ(table.next_id(), 11);
        EXPECT_EQ(table.find(11), std::nullopt);
    }
    const std::vector<std::vector<TagId>> too_many = {{1}, {2}};
    EXPECT_THROW(table.append(std::vector<Trace>{simple(11)}, too_many), std::invalid_argument);
    EXPECT_EQ(table.rows(), 1U);
    table.append(std::vector<Trace>{simple(11)}, {});
    EXPECT_EQ(table.find(11), 1U);
}

TEST(TracesTest, NeverGivesAnIdTwice) {
    TraceTable table = table_of({simple(0), simple(1), simple(2)});
    table.remove(2);
    EXPECT_EQ(table.find(2), std::nullopt);
    EXPECT_EQ(table.next_id(), 3);
    EXPECT_THROW(table.append(std::vector<Trace>{simple(2)}, {}), std::invalid_argument);
    table.compact();
    EXPECT_EQ(table.next_id(), 3);
    EXPECT_THROW(table.append(std::vector<Trace>{simple(2)}, {}), std::invalid_argument);
    table.set_next_id(100);
    EXPECT_THROW(table.append(std::vector<Trace>{simple(99)}, {}), std::invalid_argument);
    EXPECT_THROW(table.set_next_id(99), std::invalid_argument);
    table.append(std::vector<Trace>{simple(100)}, {});
    EXPECT_EQ(table.next_id(), 101);
}

// -- decay ---------------------------------------------------------------------------------------

TEST(DecayTest, TheAsymptoticLawGivesThePublishedTable) {
    Policy policy;
    policy.decay_law = DecayLaw::asymptotic;
    const TraceTable table = table_of({simple(0, 0.9, 0.7)}, policy);
    const std::pair<double, double> published[] = {{7, 0.85}, {30, 0.72}, {60, 0.70}, {90, 0.70}};
    for (const auto& [days, expected] : published) {
        EXPECT_NEAR(table.vividness(0, start_of_time + days * day, false), expected, 0.005) << days;
    }
}

TEST(DecayTest, TheClampLawStopsAtTheFloor) {
    const TraceTable table = table_of({simple(0, 0.9, 0.7), simple(1)});
    const double rate = 0.1 * (1.0 - 0.5 * 0.9);
    EXPECT_NEAR(table.vividness(0, start_of_time + 2 * day, false), std::exp(-rate * 2.0),
                tolerance);
    for (const double days : {7.0, 30.0, 60.0, 90.0, 1e6}) {
        EXPECT_EQ(table.vividness(0, start_of_time + days * day, false), 0.7) << days;
    }
    EXPECT_NEAR(table.vividness(1, start_of_time + 30 * day, false), std::exp(-3.0), tolerance);
}

TEST(DecayTest, AnAgeBelowZeroCountsAsZero) {
    const TraceTable table = table_of({simple(0, 0.3)});
    EXPECT_EQ(table.vividness(0, start_of_time - 100 * day, false), 1.0);
    EXPECT_EQ(table.vividness(0, start_of_time, false), 1.0);
}

class DecayAtLevel : public testing::EverySimdLevel {};

TEST_P(DecayAtLevel, AllRowsMatchThePlainLawsAndTheLazyForm) {
    Random random(1);
    for (const DecayLaw law : {DecayLaw::clamp, DecayLaw::asymptotic}) {
        Policy policy;
        policy.decay_law = law;
        for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 300U, 1000U}) {
            std::vector<Trace> traces;
            for (std::size_t i = 0; i < count; ++i) {
                traces.push_back(
                    testing::random_trace(random, static_cast<std::int64_t>(i), start_of_time));
            }
            const TraceTable table = table_of(traces, policy);
            for (const double days : {-10.0, 0.0, 1.0, 30.0, 400.0}) {
                const double now = start_of_time + days * day;
                const auto all = table.all_vividness(now);
                ASSERT_EQ(all.size(), count);
                for (std::size_t row = 0; row < count; ++row) {
                    EXPECT_EQ(all[row], table.vividness(row, now, false));
                    EXPECT_NEAR(all[row], testing::plain_vividness(policy, traces[row], now),
                                tolerance);
                    EXPECT_NEAR(table.vividness(row, now, true),
                                testing::plain_effective(policy, traces[row], now), tolerance);
                }
            }
        }
    }
}

TEST_P(DecayAtLevel, HasTheSameBitsAsAtTheBaseLevel) {
    Random random(2);
    std::vector<Trace> traces;
    for (std::int64_t id = 0; id < 501; ++id) {
        traces.push_back(testing::random_trace(random, id, start_of_time));
    }
    for (const DecayLaw law : {DecayLaw::clamp, DecayLaw::asymptotic}) {
        Policy policy;
        policy.decay_law = law;
        const TraceTable table = table_of(traces, policy);
        set_simd_level(GetParam());
        const auto here = table.all_vividness(start_of_time + 3 * day);
        set_simd_level("base");
        EXPECT_EQ(here, table.all_vividness(start_of_time + 3 * day));
    }
}

// Both laws are semigroups. Tolerance: one rounding a step, 365 steps.
TEST_P(DecayAtLevel, StepByStepEqualsAtOnce) {
    Random random(3);
    for (const DecayLaw law : {DecayLaw::clamp, DecayLaw::asymptotic}) {
        Policy policy;
        policy.decay_law = law;
        std::vector<Trace> traces;
        for (std::int64_t id = 0; id < 50; ++id) {
            traces.push_back(testing::random_trace(random, id, start_of_time));
        }
        const TraceTable lazy = table_of(traces, policy);
        TraceTable stepwise = table_of(traces, policy);
        for (int step = 1; step <= 365; ++step) {
            stepwise.materialize_decay(start_of_time + step * day);
        }
        const double now = start_of_time + 365 * day;
        for (std::size_t row = 0; row < lazy.rows(); ++row) {
            const double expected = lazy.vividness(row, now, false);
            EXPECT_NEAR(stepwise.vividness(row, now, false), expected, 1e-12 * expected);
        }
    }
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(DecayAtLevel);

TEST(DecayTest, ReanchoringAtAnEarlierTimeChangesNothing) {
    TraceTable table = table_of({simple(0, 0.2)});
    table.materialize_decay(start_of_time + 10 * day);
    const double later = table.vividness(0, start_of_time + 20 * day, false);
    table.materialize_decay(start_of_time + 5 * day);
    EXPECT_EQ(table.vividness(0, start_of_time + 20 * day, false), later);
}

TEST(DecayTest, ANewPolicyAfterReanchoringDoesNotRewriteThePast) {
    TraceTable table = table_of({simple(0), simple(1, 0.9, 0.7)});
    const double now = start_of_time + 5 * day;
    const auto before = table.all_vividness(now);
    table.materialize_decay(now);
    Policy slower;
    slower.decay_rate_per_day = 0.01;
    table.set_policy(slower);
    EXPECT_EQ(table.all_vividness(now), before);
    EXPECT_NEAR(table.vividness(0, now + 10 * day, false), before[0] * std::exp(-0.1), tolerance);
    Policy bad;
    bad.access_boost = 5.0;
    EXPECT_THROW(table.set_policy(bad), std::invalid_argument);
    EXPECT_EQ(table.policy().access_boost, 0.1);
}

// -- access --------------------------------------------------------------------------------------

TEST(TouchTest, StrengthensBySalienceUpToOne) {
    TraceTable table = table_of({simple(0, 0.4)}, without_interval());
    const double now = start_of_time + 10 * day;
    const double before = table.vividness(0, now, false);
    table.touch(0, now);
    EXPECT_DOUBLE_EQ(table.vividness(0, now, false), before + 0.1 * (1.0 + 0.5 * 0.4));
    EXPECT_EQ(table.trace(0).access_count, 1);
    EXPECT_EQ(table.trace(0).last_access, now);
    for (int i = 0; i < 20; ++i) table.touch(0, now);
    EXPECT_EQ(table.vividness(0, now, false), 1.0);
    EXPECT_EQ(table.trace(0).access_count, 21);
}

TEST(TouchTest, MovesStrengthAtMostOnceAnHourAndCountsEveryTime) {
    TraceTable table = table_of({simple(0)});
    const double now = start_of_time + 20 * day;
    table.touch(0, now);
    const double after_one = table.vividness(0, now + 3599.0, false);
    table.touch(0, now + 3599.0);
    EXPECT_EQ(table.vividness(0, now + 3599.0, false), after_one);
    EXPECT_EQ(table.trace(0).access_count, 2);
    EXPECT_EQ(table.trace(0).last_access, now + 3599.0);
    const double decayed = table.vividness(0, now + 3600.0, false);
    table.touch(0, now + 3600.0);
    EXPECT_DOUBLE_EQ(table.vividness(0, now + 3600.0, false), decayed + 0.1);
}

TEST(StrengthenTest, RaisesUpToOneAtMostOnceAnHourAndCountsNothing) {
    TraceTable table = table_of({simple(0)});
    const double now = start_of_time + 20 * day;
    const double before = table.vividness(0, now, false);
    table.strengthen(0, 0.05, now);
    EXPECT_DOUBLE_EQ(table.vividness(0, now, false), before + 0.05);
    table.strengthen(0, 0.05, now + 3599.0);
    EXPECT_EQ(table.trace(0).vividness_time, now);
    table.strengthen(0, 5.0, now + 3600.0);
    EXPECT_EQ(table.vividness(0, now + 3600.0, false), 1.0);
    EXPECT_EQ(table.trace(0).access_count, 0);
    EXPECT_TRUE(std::isnan(table.trace(0).last_access));
}

TEST(TouchTest, AClockThatStepsBackNeverMovesTheLastAccessOrAgesTwice) {
    TraceTable table = table_of({simple(0)}, without_interval());
    const double now = start_of_time + 10 * day;
    table.touch(0, now);
    const double later = table.vividness(0, now + day, false);
    table.touch(0, now - 5 * day);
    EXPECT_EQ(table.trace(0).last_access, now);
    EXPECT_EQ(table.trace(0).access_count, 2);
    EXPECT_EQ(table.trace(0).vividness_time, now);
    EXPECT_GE(table.vividness(0, now + day, false), later);
}

// -- suppression ---------------------------------------------------------------------------------

TEST(SuppressTest, WeakensByTheCosineDownToTheFloor) {
    TraceTable table = table_of({simple(0, 0.6, 0.4)}, without_interval());
    EXPECT_TRUE(table.suppress(0, 0.9, start_of_time));
    EXPECT_DOUBLE_EQ(table.vividness(0, start_of_time, false), 1.0 - 0.05 * 0.9);
    for (int i = 0; i < 50; ++i) table.suppress(0, 1.0, start_of_time);
    EXPECT_EQ(table.vividness(0, start_of_time, false), 0.4);
    EXPECT_EQ(table.trace(0).access_count, 0);
    EXPECT_TRUE(std::isnan(table.trace(0).last_access));
}

TEST(SuppressTest, SparesTheDissimilarTheSalientAndThePinned) {
    Trace pinned = simple(2);
    pinned.pinned = true;
    TraceTable table = table_of({simple(0), simple(1, 0.71), pinned, simple(3, 0.7)});
    EXPECT_FALSE(table.suppress(0, 0.7, start_of_time));  // not above the threshold
    EXPECT_FALSE(table.suppress(1, 0.99, start_of_time));
    EXPECT_FALSE(table.suppress(2, 0.99, start_of_time));
    EXPECT_TRUE(table.suppress(3, 0.99, start_of_time));  // salience 0.7 is not above 0.7
    for (std::size_t row = 0; row < 3; ++row) {
        EXPECT_EQ(table.vividness(row, start_of_time, false), 1.0) << row;
    }
}

TEST(SuppressTest, SharesTheHourlyBoundWithAccess) {
    TraceTable table = table_of({simple(0)});
    const double now = start_of_time + day;
    table.touch(0, now);
    EXPECT_FALSE(table.suppress(0, 0.9, now + 3599.0));
    EXPECT_TRUE(table.suppress(0, 0.9, now + 3600.0));
    const double weakened = table.vividness(0, now + 3600.0, false);
    table.touch(0, now + 3600.0);
    EXPECT_EQ(table.vividness(0, now + 3600.0, false), weakened);
}

// -- tasks and pins ------------------------------------------------------------------------------

TEST(TaskTest, OpenIsLiftedAndCompletedLowered) {
    Trace task = simple(0, 0.9, 0.7);
    task.urgency = 0.5;
    task.status = TaskStatus::open;
    TraceTable table = table_of({task});
    const double now = start_of_time + 20 * day;
    EXPECT_EQ(table.vividness(0, now, false), 0.7);
    EXPECT_DOUBLE_EQ(table.vividness(0, now, true), 0.8);
    EXPECT_EQ(table.vividness(0, start_of_time, true), 1.0);  // never above one
    table.complete(0, now);
    EXPECT_EQ(table.trace(0).status, TaskStatus::completed);
    EXPECT_EQ(table.trace(0).floor, 0.4);  // one class lower
    EXPECT_EQ(table.vividness(0, now, false), 0.7);
    EXPECT_DOUBLE_EQ(table.vividness(0, now, true), 0.6);
    EXPECT_EQ(table.vividness(0, now + 400 * day, true), 0.4);  // not below the floor
}

TEST(TaskTest, CompletingUnpinsAndDecayStartsThen) {
    Trace task = simple(0);
    task.urgency = 1.0;
    task.status = TaskStatus::open;
    task.pinned = true;
    TraceTable table = table_of({task});
    const double now = start_of_time + 50 * day;
    table.complete(0, now);
    EXPECT_FALSE(table.trace(0).pinned);
    EXPECT_EQ(table.vividness(0, now, false), 1.0);
    EXPECT_NEAR(table.vividness(0, now + 10 * day, false), std::exp(-1.0), tolerance);
}

TEST(TaskTest, CompletingTwiceChangesNothing) {
    Trace task = simple(0, 0.9, 0.7);
    task.urgency = 1.0;
    task.status = TaskStatus::open;
    TraceTable table = table_of({task});
    table.complete(0, start_of_time + day);
    const Trace once = table.trace(0);
    table.complete(0, start_of_time + 9 * day);
    EXPECT_EQ(table.trace(0).floor, once.floor);
    EXPECT_EQ(table.trace(0).vividness_time, once.vividness_time);
}

TEST(PinTest, HoldsAtOneUntilUnpinnedThenDecaysFromThere) {
    TraceTable table = table_of({simple(0, 0.2)});
    const double pinned_at = start_of_time + 30 * day;
    table.pin(0, pinned_at);
    EXPECT_EQ(table.vividness(0, pinned_at + 1000 * day, false), 1.0);
    EXPECT_EQ(table.trace(0).salience, 0.2);
    const double unpinned_at = pinned_at + 1000 * day;
    table.unpin(0, unpinned_at);
    EXPECT_EQ(table.vividness(0, unpinned_at, false), 1.0);
    EXPECT_NEAR(table.vividness(0, unpinned_at + 10 * day, false),
                std::exp(-0.1 * (1 - 0.5 * 0.2) * 10), tolerance);
    const Trace once = table.trace(0);
    table.unpin(0, unpinned_at + day);  // not pinned any more
    EXPECT_EQ(table.trace(0).vividness_time, once.vividness_time);
}

TEST(PinTest, CompletedTasksMayBePinnedAgain) {
    Trace task = simple(0);
    task.urgency = 0.5;
    task.status = TaskStatus::completed;
    TraceTable table = table_of({task});
    table.pin(0, start_of_time + 90 * day);
    EXPECT_EQ(table.vividness(0, start_of_time + 99 * day, false), 1.0);
    EXPECT_EQ(table.trace(0).status, TaskStatus::completed);
}

// -- removal and tags ----------------------------------------------------------------------------

TEST(CompactTest, KeepsEveryTraceWithItsIdAndTags) {
    Random random(5);
    testing::Store store = testing::random_store(random, 200, 4, start_of_time, {}, 0.4);
    TraceTable& table = store.traces;
    const auto live = table.live_rows();
    std::vector<Trace> traces;
    std::vector<std::vector<TagId>> tags;
    for (const std::size_t row : live) {
        traces.push_back(table.trace(row));
        tags.emplace_back(table.tags(row).begin(), table.tags(row).end());
    }
    const auto vividness = table.all_vividness(start_of_time);
    EXPECT_EQ(table.compact(), live);
    ASSERT_EQ(table.rows(), live.size());
    EXPECT_EQ(table.live(), live.size());
    for (std::size_t row = 0; row < live.size(); ++row) {
        EXPECT_EQ(table.find(traces[row].id), row);
        EXPECT_EQ(table.trace(row).urgency == traces[row].urgency,
                  !std::isnan(traces[row].urgency));
        EXPECT_EQ(table.trace(row).status, traces[row].status);
        EXPECT_EQ(table.vividness(row, start_of_time, false), vividness[live[row]]);
        EXPECT_EQ(std::vector<TagId>(table.tags(row).begin(), table.tags(row).end()), tags[row]);
    }
}

TEST(RemoveTest, IsCountedOnceAndLeavesOthersInPlace) {
    TraceTable table = table_of({simple(3), simple(5), simple(9)});
    table.remove(1);
    table.remove(1);
    EXPECT_EQ(table.live(), 2U);
    EXPECT_EQ(table.rows(), 3U);
    EXPECT_EQ(table.live_rows(), (std::vector<std::size_t>{0, 2}));
    EXPECT_EQ(table.find(3), 0U);
    EXPECT_EQ(table.find(5), std::nullopt);
    EXPECT_EQ(table.find(9), 2U);
    EXPECT_EQ(table.find(4), std::nullopt);
}

class TagsAtLevel : public testing::EverySimdLevel {};

TEST_P(TagsAtLevel, ScansMatchSetInclusion) {
    Random random(6);
    const testing::Store store = testing::random_store(random, 777, 2, start_of_time);
    const TraceTable& table = store.traces;
    const std::vector<std::vector<TagId>> wanted_sets = {{}, {0}, {3, 7}, {9, 1, 4}, {1, 1}, {42}};
    for (const auto& wanted : wanted_sets) {
        Filter filter;
        filter.tags = wanted;
        std::vector<std::size_t> expected;
        for (std::size_t row = 0; row < table.rows(); ++row) {
            if (testing::plain_passes(table, filter, row)) expected.push_back(row);
        }
        EXPECT_EQ(table.rows_with_tags(wanted), expected);
        std::optional<std::size_t> newest;
        for (const std::size_t row : expected) {
            if (!newest || table.trace(row).created >= table.trace(*newest).created) newest = row;
        }
        EXPECT_EQ(table.newest_with_tags(wanted), newest);
    }
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(TagsAtLevel);

TEST(TagsTest, TheNewestOfEqualTimesHasTheHighestId) {
    TraceTable table{Policy{}};
    const std::vector<std::vector<TagId>> tags = {{1}, {1}, {1}};
    std::vector<Trace> traces = {simple(0), simple(1), simple(2)};
    traces[2].created -= 1.0;
    table.append(traces, tags);
    EXPECT_EQ(table.newest_with_tags(std::vector<TagId>{1}), 1U);
    table.remove(1);
    EXPECT_EQ(table.newest_with_tags(std::vector<TagId>{1}), 0U);
    EXPECT_EQ(table.newest_with_tags(std::vector<TagId>{2}), std::nullopt);
}

}  // namespace
}  // namespace flashbulb
