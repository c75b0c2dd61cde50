#include "flashbulb/simd_level.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "dispatch.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::level_names;
using testing::LevelGuard;

const kernels::KernelTable& table_of(const std::string& name) {
#ifdef FLASHBULB_WITH_LEVEL_v3
    if (name == "v3") return kernels::table_v3();
#endif
#ifdef FLASHBULB_WITH_LEVEL_v3_vnni
    if (name == "v3_vnni") return kernels::table_v3_vnni();
#endif
#ifdef FLASHBULB_WITH_LEVEL_v4_vnni
    if (name == "v4_vnni") return kernels::table_v4_vnni();
#endif
#ifdef FLASHBULB_WITH_LEVEL_dotprod
    if (name == "dotprod") return kernels::table_dotprod();
#endif
#ifdef FLASHBULB_WITH_LEVEL_v4_amx
    if (name == "v4_amx") return kernels::table_v4_amx();
#endif
#ifdef FLASHBULB_WITH_LEVEL_v4
    if (name == "v4") return kernels::table_v4();
#endif
    EXPECT_EQ(name, "base");
    return kernels::table_base();
}

TEST(SimdLevelTest, BaseIsAlwaysSupportedAndFirst) {
    const auto names = level_names();
    ASSERT_FALSE(names.empty());
    EXPECT_EQ(names.front(), "base");
}

TEST(SimdLevelTest, EveryLevelRoutesToItsOwnTable) {
    const LevelGuard guard;
    for (const std::string& name : level_names()) {
        set_simd_level(name);
        EXPECT_EQ(to_string(active_simd_level()), name);
        EXPECT_EQ(&active_kernels(), &table_of(name));
    }
}

// Two levels that add in another order round differently somewhere: were the linker to merge
// their kernels, all would give the same bits.
TEST(SimdLevelTest, LevelsAreDifferentCode) {
    testing::Random random(1);
    constexpr std::size_t dim = 384;
    constexpr std::size_t count = 256;
    const auto rows = testing::unit_rows(random, count, dim);
    const auto query = testing::unit_rows(random, 1, dim);
    std::vector<std::vector<float>> results;
    for (const std::string& name : level_names()) {
        // These add floats as the level they refine.
        if (name.find('_') != name.npos || name == "dotprod") continue;
        std::vector<float> out(count);
        table_of(name).select_inner_products(query.data(), rows.data(), count, dim, out.data());
        for (const auto& other : results) EXPECT_NE(out, other) << name;
        results.push_back(out);
    }
}

TEST(SimdLevelTest, RefusesUnknownNamesAndKeepsTheLevel) {
    const LevelGuard guard;
    set_simd_level("base");
    for (const char* name : {"v5", "", "BASE", "avx2", "v3 "}) {
        try {
            set_simd_level(name);
            ADD_FAILURE() << "accepted '" << name << "'";
        } catch (const std::invalid_argument& error) {
            const std::string message = error.what();
            EXPECT_NE(message.find("unknown SIMD level '" + std::string(name) + "'"),
                      std::string::npos)
                << message;
            EXPECT_NE(message.find("supported here: base"), std::string::npos) << message;
        }
        EXPECT_EQ(active_simd_level(), SimdLevel::base);
    }
}

TEST(SimdLevelTest, RefusesKnownLevelsThatThisMachineLacks) {
    const auto names = level_names();
    for (const char* name : {"v3", "v3_vnni", "v4", "v4_vnni", "v4_amx", "dotprod"}) {
        if (std::count(names.begin(), names.end(), name) > 0) continue;
        try {
            set_simd_level(name);
            ADD_FAILURE() << "accepted " << name;
        } catch (const std::invalid_argument& error) {
            EXPECT_NE(std::string(error.what()).find("cannot run"), std::string::npos);
        }
    }
}

// The environment is read on first use, so each of these needs a process of its own.
class SimdLevelDeathTest : public ::testing::Test {
protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
    void TearDown() override {
        unsetenv("FLASHBULB_SIMD_LEVEL");
        unsetenv("FLASHBULB_AMX");
    }

    [[noreturn]] static void report() {
        try {
            std::fputs(std::string(to_string(active_simd_level())).c_str(), stderr);
        } catch (const std::invalid_argument& error) {
            std::fputs(error.what(), stderr);
            std::exit(3);
        }
        std::exit(0);
    }
};

TEST_F(SimdLevelDeathTest, TheEnvironmentForcesALevel) {
    for (const std::string& name : level_names()) {
        setenv("FLASHBULB_SIMD_LEVEL", name.c_str(), 1);
        EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), name);
    }
}

TEST_F(SimdLevelDeathTest, WithoutItTheHighestIsTaken) {
    unsetenv("FLASHBULB_SIMD_LEVEL");
    EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), level_names().back());
    setenv("FLASHBULB_SIMD_LEVEL", "", 1);
    EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), level_names().back());
}

TEST_F(SimdLevelDeathTest, AnUnknownNameInTheEnvironmentIsAnError) {
    setenv("FLASHBULB_SIMD_LEVEL", "v5", 1);
    EXPECT_EXIT(report(), ::testing::ExitedWithCode(3),
                "unknown SIMD level 'v5'; supported here: base");
}

TEST_F(SimdLevelDeathTest, MatrixTilesCanBeSwitchedOff) {
    for (const char* wanted : {"", "1"}) {
        setenv("FLASHBULB_AMX", wanted, 1);
        EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), "^" + level_names().back() + "$");
    }
    setenv("FLASHBULB_AMX", "0", 1);
    EXPECT_EXIT(report(), ::testing::ExitedWithCode(0), "^(base|v3|v3_vnni|v4|v4_vnni|dotprod)$");
    setenv("FLASHBULB_SIMD_LEVEL", "v4_amx", 1);
    EXPECT_EXIT(report(), ::testing::ExitedWithCode(3), "SIMD level 'v4_amx' cannot run");
}

TEST_F(SimdLevelDeathTest, WhatMatrixTilesCannotMeanIsAnError) {
    setenv("FLASHBULB_SIMD_LEVEL", "base", 1);
    for (const char* wanted : {"2", "off", " 0", "00"}) {
        setenv("FLASHBULB_AMX", wanted, 1);
        EXPECT_EXIT(report(), ::testing::ExitedWithCode(3),
                    std::string("FLASHBULB_AMX must be 0 .* or 1 .*, got '") + wanted + "'");
    }
}

}  // namespace
}  // namespace flashbulb
