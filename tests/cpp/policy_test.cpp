#include "flashbulb/policy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace flashbulb {
namespace {

struct BadField {
    const char* name;
    double Policy::*member;
    double value;
};

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

constexpr BadField bad_fields[] = {
    {"decay_rate_per_day", &Policy::decay_rate_per_day, -0.1},
    {"decay_rate_per_day", &Policy::decay_rate_per_day, infinity},
    {"decay_salience_damping", &Policy::decay_salience_damping, 1.5},
    {"asymptotic_decay_rate_per_day", &Policy::asymptotic_decay_rate_per_day, not_a_number},
    {"flashbulb_threshold", &Policy::flashbulb_threshold, 1.1},
    {"flashbulb_floor", &Policy::flashbulb_floor, -0.1},
    {"important_threshold", &Policy::important_threshold, 0.9},  // above flashbulb_threshold
    {"important_floor", &Policy::important_floor, 0.8},          // above flashbulb_floor
    {"access_boost", &Policy::access_boost, 2.0},
    {"access_salience_gain", &Policy::access_salience_gain, infinity},
    {"strength_interval_seconds", &Policy::strength_interval_seconds, -1.0},
    {"reinforce_similarity_margin", &Policy::reinforce_similarity_margin, not_a_number},
    {"rif_similarity", &Policy::rif_similarity, 1.01},
    {"rif_strength", &Policy::rif_strength, -1.0},
    {"rif_max_salience", &Policy::rif_max_salience, not_a_number},
    {"open_task_boost", &Policy::open_task_boost, 1.5},
    {"completed_task_penalty", &Policy::completed_task_penalty, -0.5},
    {"open_task_salience", &Policy::open_task_salience, 7.0},
    {"vividness_weight", &Policy::vividness_weight, -0.3},
    {"recency_weight", &Policy::recency_weight, infinity},
    {"recency_days", &Policy::recency_days, 0.0},
    {"vividness_ramp_start", &Policy::vividness_ramp_start, -2.0},
    {"vividness_ramp_end", &Policy::vividness_ramp_end, -0.5},  // before it starts
    {"recency_ramp_start", &Policy::recency_ramp_start, not_a_number},
    {"recency_ramp_end", &Policy::recency_ramp_end, 1.5},
    {"lexical_weight", &Policy::lexical_weight, 1.5},
    {"lexical_saturation", &Policy::lexical_saturation, 0.0},
    {"surprise_threshold", &Policy::surprise_threshold, not_a_number},
    {"surprise_relative_sd_floor", &Policy::surprise_relative_sd_floor, -0.1},
    {"surprise_max_salience", &Policy::surprise_max_salience, 2.0},
    {"importance_surprise_weight", &Policy::importance_surprise_weight, -1.0},
    {"importance_novelty_weight", &Policy::importance_novelty_weight, 1.1},
    {"novelty_days", &Policy::novelty_days, 0.0},
    {"max_surprise_pin_share", &Policy::max_surprise_pin_share, infinity},
};

TEST(PolicyTest, DefaultsAreValid) { EXPECT_NO_THROW(Policy{}.validate()); }

TEST(PolicyTest, RefusesEachBadFieldByName) {
    for (const BadField& bad : bad_fields) {
        SCOPED_TRACE(bad.name);
        Policy policy;
        policy.*bad.member = bad.value;
        try {
            policy.validate();
            ADD_FAILURE() << "accepted " << bad.value;
        } catch (const std::invalid_argument& error) {
            EXPECT_EQ(std::string(error.what()).rfind(bad.name, 0), 0U) << error.what();
        }
    }
}

TEST(PolicyTest, RefusesCountsOutOfRange) {
    const auto refuses = [](auto change) {
        Policy policy;
        change(policy);
        EXPECT_THROW(policy.validate(), std::invalid_argument);
    };
    refuses([](Policy& policy) { policy.rif_runners_up = -1; });
    refuses([](Policy& policy) { policy.surprise_min_samples = 1; });
    refuses([](Policy& policy) { policy.surprise_neighbours = 0; });
    refuses([](Policy& policy) { policy.max_surprise_pins = -1; });
}

TEST(PolicyTest, ARampIsOffOrWideEnoughForTheSlackOfASearch) {
    Policy policy;
    policy.vividness_ramp_start = policy.vividness_ramp_end = 0.3;
    EXPECT_NO_THROW(policy.validate());
    policy.vividness_ramp_end = 0.3 + 2e-6;
    EXPECT_NO_THROW(policy.validate());
    policy.vividness_ramp_end = std::nextafter(0.3, 1.0);
    EXPECT_THROW(policy.validate(), std::invalid_argument);
}

TEST(PolicyTest, FloorsOfThePublishedThresholds) {
    const Policy policy;
    EXPECT_EQ(policy.floor_for(0.0), 0.0);
    EXPECT_EQ(policy.floor_for(std::nextafter(0.5, 0.0)), 0.0);
    EXPECT_EQ(policy.floor_for(0.5), 0.4);
    EXPECT_EQ(policy.floor_for(0.79), 0.4);
    EXPECT_EQ(policy.floor_for(0.8), 0.7);
    EXPECT_EQ(policy.floor_for(1.0), 0.7);
}

TEST(PolicyTest, CompletionLowersTheFloorByOneClass) {
    Policy policy;
    EXPECT_EQ(policy.floor_after_completion(0.7), 0.4);
    EXPECT_EQ(policy.floor_after_completion(0.4), 0.0);
    EXPECT_EQ(policy.floor_after_completion(0.0), 0.0);
    policy.completion_lowers_floor = false;
    EXPECT_EQ(policy.floor_after_completion(0.7), 0.7);
}

TEST(PolicyTest, DecayRates) {
    Policy policy;
    EXPECT_DOUBLE_EQ(policy.decay_rate(0.0), 0.1);
    EXPECT_DOUBLE_EQ(policy.decay_rate(1.0), 0.05);
    policy.decay_law = DecayLaw::asymptotic;
    EXPECT_DOUBLE_EQ(policy.decay_rate(0.0), 0.097);
    EXPECT_DOUBLE_EQ(policy.decay_rate(1.0), 0.097);
}

}  // namespace
}  // namespace flashbulb
