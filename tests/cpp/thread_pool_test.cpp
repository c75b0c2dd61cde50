#include "flashbulb/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"

namespace flashbulb {
namespace {

using namespace std::chrono_literals;
using testing::ThreadsGuard;

// Counts how often each part ran; not atomic, so that a part that ran twice at once is a race.
std::vector<int> counts_of(std::size_t parts) {
    std::vector<int> counts(parts, 0);
    run_parts(parts, [&](std::size_t part) { ++counts[part]; });
    return counts;
}

double processor_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ThreadPoolTest, EachPartRunsOnce) {
    for (const std::size_t count : {1U, 2U, 3U, 8U}) {
        const ThreadsGuard guard(count);
        for (const std::size_t parts : {0U, 1U, 2U, 3U, 15U, 16U, 17U, 1000U}) {
            EXPECT_EQ(counts_of(parts), std::vector<int>(parts, 1)) << count << " threads";
        }
    }
}

TEST(ThreadPoolTest, PartsRunBesideEachOther) {
    const ThreadsGuard guard(3);
    std::atomic<int> inside{0};
    run_parts(3, [&](std::size_t) {
        ++inside;
        while (inside < 3) std::this_thread::sleep_for(1ms);  // ends only if all three are inside
    });
    EXPECT_EQ(inside, 3);
}

TEST(ThreadPoolTest, ASlowPartDoesNotHoldTheOthers) {
    const ThreadsGuard guard(2);
    std::atomic<int> done{0};
    run_parts(50, [&](std::size_t part) {
        // Ends only if the other thread takes all the other parts.
        while (part == 0 && done < 49) std::this_thread::sleep_for(1ms);
        ++done;
    });
    EXPECT_EQ(done, 50);
}

TEST(ThreadPoolTest, OneThreadIsTheCallersInOrder) {
    const ThreadsGuard guard(1);
    std::vector<std::size_t> order;
    run_parts(20, [&](std::size_t part) {
        EXPECT_FALSE(order.size() != part);
        order.push_back(part);
    });
    EXPECT_EQ(order.size(), 20U);
}

TEST(ThreadPoolTest, ACallUsesNoMoreThreadsThanItMay) {
    const ThreadsGuard guard(3);
    std::mutex mutex;
    std::set<std::thread::id> seen;
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    run_parts(100, [&](std::size_t) {
        const int now = ++inside;
        most = std::max(most.load(), now);
        {
            const std::lock_guard lock(mutex);
            seen.insert(std::this_thread::get_id());
        }
        std::this_thread::sleep_for(1ms);
        --inside;
    });
    EXPECT_LE(seen.size(), 3U);
    EXPECT_LE(most, 3);
}

TEST(ThreadPoolTest, ATaskMayBeConstant) {
    std::atomic<int> sum{0};
    const auto task = [&sum](std::size_t part) { sum += static_cast<int>(part); };
    run_parts(10, task);
    EXPECT_EQ(sum, 45);
}

TEST(ThreadPoolTest, AnExceptionReachesTheCaller) {
    for (const std::size_t count : {1U, 2U, 8U}) {
        const ThreadsGuard guard(count);
        for (const std::size_t bad : {0U, 1U, 7U, 999U}) {
            std::atomic<int> began{0};
            try {
                run_parts(1000, [&](std::size_t part) {
                    ++began;
                    if (part == bad) throw std::runtime_error("part " + std::to_string(part));
                });
                ADD_FAILURE() << "nothing was thrown";
            } catch (const std::runtime_error& error) {
                EXPECT_EQ(error.what(), "part " + std::to_string(bad));
            }
            EXPECT_GT(began, 0);
        }
        EXPECT_EQ(counts_of(100), std::vector<int>(100, 1));
    }
}

TEST(ThreadPoolTest, OneExceptionOfManyReachesTheCaller) {
    const ThreadsGuard guard(4);
    EXPECT_THROW(run_parts(100, [](std::size_t) { throw std::runtime_error("each part"); }),
                 std::runtime_error);
    EXPECT_EQ(counts_of(100), std::vector<int>(100, 1));
}

TEST(ThreadPoolTest, ACallFromAPartRunsInPlace) {
    const ThreadsGuard guard(4);
    std::vector<std::vector<int>> counts(20);
    std::atomic<int> elsewhere{0};
    run_parts(20, [&](std::size_t part) {
        const auto self = std::this_thread::get_id();
        counts[part].assign(50, 0);
        run_parts(50, [&](std::size_t inner) {
            if (std::this_thread::get_id() != self) ++elsewhere;
            ++counts[part][inner];
        });
    });
    EXPECT_EQ(elsewhere, 0);
    for (const auto& each : counts) EXPECT_EQ(each, std::vector<int>(50, 1));
}

TEST(ThreadPoolTest, ManyCallersShareTheThreads) {
    const ThreadsGuard guard(3);
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 6; ++i) {
        callers.emplace_back([&, i] {
            for (int round = 0; round < 200; ++round) {
                const auto parts = static_cast<std::size_t>(1 + (round * 7 + i) % 40);
                if (counts_of(parts) != std::vector<int>(parts, 1)) ++wrong;
            }
        });
    }
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0);
}

// The one helper of a caller with endless parts comes to the next caller too.
TEST(ThreadPoolTest, AThreadMovesOnToACallerWithoutHelp) {
    const ThreadsGuard guard(2);
    std::atomic<bool> first_helped{false};
    std::atomic<int> second_helped{0};
    constexpr int wanted = 10;
    std::thread first([&] {
        run_parts(1'000'000, [&, caller = std::this_thread::get_id()](std::size_t) {
            if (std::this_thread::get_id() != caller) first_helped = true;
            if (second_helped < wanted) std::this_thread::sleep_for(1ms);
        });
    });
    while (!first_helped) std::this_thread::sleep_for(1ms);
    for (int round = 0; round < wanted; ++round) {
        run_parts(2, [&, caller = std::this_thread::get_id()](std::size_t) {
            if (std::this_thread::get_id() != caller) ++second_helped;
            // The caller waits in its part: the other one can only be the helper's.
            while (second_helped <= round) std::this_thread::sleep_for(1ms);
        });
    }
    EXPECT_EQ(second_helped, wanted);
    first.join();
}

TEST(ThreadPoolTest, TheNumberOfThreadsMayChange) {
    const std::size_t before = threads();
    EXPECT_GE(before, 1U);
    for (const std::size_t count : {5U, 1U, 2U, 1024U, 3U}) {
        set_threads(count);
        EXPECT_EQ(threads(), count);
        EXPECT_EQ(counts_of(30), std::vector<int>(30, 1));
    }
    set_threads(0);
    EXPECT_EQ(threads(), available_processors());
    EXPECT_THROW(set_threads(1025), std::invalid_argument);
    EXPECT_EQ(threads(), available_processors());
    set_threads(before);
}

TEST(ThreadPoolTest, TheNumberOfThreadsMayChangeInUse) {
    const ThreadsGuard guard(2);
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) {
        callers.emplace_back([&] {
            while (!done) {
                if (counts_of(25) != std::vector<int>(25, 1)) ++wrong;
            }
        });
    }
    std::vector<std::thread> setters;
    for (std::size_t i = 0; i < 2; ++i) {
        setters.emplace_back([&, i] {
            for (std::size_t round = 0; round < 100; ++round) set_threads(1 + (round + i) % 6);
        });
    }
    for (auto& setter : setters) setter.join();
    done = true;
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0);
}

TEST(ThreadPoolTest, SmallPassesStayWhole) {
    const ThreadsGuard guard(1);
    EXPECT_EQ(parts_for(std::size_t{1} << 40U), 1U);
    set_threads(2);
    EXPECT_EQ(parts_for(0), 1U);
    EXPECT_EQ(parts_for((std::size_t{4} << 20U) - 1), 1U);
    EXPECT_EQ(parts_for(std::size_t{4} << 20U), 8U);
    EXPECT_EQ(parts_for(std::size_t{1} << 40U), 8U);
    set_threads(100);
    EXPECT_EQ(parts_for(std::size_t{4} << 20U), 8U);  // no part of less than half a MB
    EXPECT_EQ(parts_for(std::size_t{1} << 40U), 400U);
}

TEST(ThreadPoolTest, RangesCoverEachNumberOnce) {
    for (const std::size_t count : {1U, 2U, 3U, 8U}) {
        const ThreadsGuard guard(count);
        for (const std::size_t total : {0U, 1U, 255U, 256U, 257U, 4095U, 4096U, 100'000U}) {
            std::vector<int> seen(total, 0);
            std::atomic<std::size_t> ranges{0};
            run_ranges(total, 1024, [&](std::size_t begin, std::size_t end) {
                EXPECT_EQ(begin % 256, 0U);
                EXPECT_TRUE(end % 256 == 0 || end == total);
                EXPECT_LT(begin, end);
                for (std::size_t i = begin; i < end; ++i) ++seen[i];
                ++ranges;
            });
            EXPECT_EQ(seen, std::vector<int>(total, 1));
            const bool split = count > 1 && total >= 4096;
            EXPECT_EQ(ranges > 1, split) << total << " by " << count << " threads";
        }
    }
}

TEST(ThreadPoolTest, APartMayNotSetTheThreads) {
    const ThreadsGuard guard(2);
    EXPECT_THROW(run_parts(4, [](std::size_t) { set_threads(1); }), std::logic_error);
    EXPECT_EQ(threads(), 2U);
}

// Idle threads take no time of a processor. A thread that spun would take all of the 0.3 s; the
// limit leaves room for a slow machine, and is in processor time, which other programs do not move.
TEST(ThreadPoolTest, IdleThreadsSleep) {
    const ThreadsGuard guard(4);
    ASSERT_EQ(counts_of(100), std::vector<int>(100, 1));
    const double before = processor_seconds();
    std::this_thread::sleep_for(300ms);
    EXPECT_LT(processor_seconds() - before, 0.1);
}

// Nor does a caller that waits for the last part of another thread.
TEST(ThreadPoolTest, AWaitingCallerSleeps) {
    const ThreadsGuard guard(2);
    const auto caller = std::this_thread::get_id();
    std::atomic<bool> helper{false};
    const double before = processor_seconds();
    run_parts(2, [&](std::size_t) {
        if (std::this_thread::get_id() == caller) {
            while (!helper) std::this_thread::sleep_for(1ms);
        } else {
            helper = true;
            std::this_thread::sleep_for(300ms);
        }
    });
    EXPECT_LT(processor_seconds() - before, 0.1);
}

// Runs `check` in a child and gives its exit status; a child that hangs is ended by the alarm.
template <class Check>
int status_in_child(Check&& check) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        std::_Exit(check() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// The thread sanitizer refuses threads in a child of a process that has threads. The allocator of
// the address sanitizer leaves its locks to the child as other threads held them at the fork, and
// the child's first allocation then waits for ever (seen with GCC 12).
#define SKIP_FORK_WITH_THREADS \
    GTEST_SKIP() << "not under sanitizers that cannot fork beside threads"
#else
#define SKIP_FORK_WITH_THREADS (void)0
#endif

TEST(ThreadPoolTest, AForkedChildHasThreadsOfItsOwn) {
    SKIP_FORK_WITH_THREADS;
    const ThreadsGuard guard(3);
    ASSERT_EQ(counts_of(50), std::vector<int>(50, 1));
    const auto works = [] {
        std::atomic<int> inside{0};
        run_parts(3, [&](std::size_t) {
            ++inside;
            while (inside < 3) std::this_thread::sleep_for(1ms);
        });
        return threads() == 3 && counts_of(50) == std::vector<int>(50, 1);
    };
    EXPECT_EQ(status_in_child(works), 0);
    // And its own child, and the parent afterwards.
    EXPECT_EQ(status_in_child([&] { return works() && status_in_child(works) == 0; }), 0);
    EXPECT_TRUE(works());
}

TEST(ThreadPoolTest, AForkInTheMiddleOfWorkIsHarmless) {
    SKIP_FORK_WITH_THREADS;
    const ThreadsGuard guard(3);
    std::atomic<bool> done{false};
    std::vector<std::thread> callers;
    for (int i = 0; i < 2; ++i) {
        callers.emplace_back([&] {
            while (!done) run_parts(10, [](std::size_t) {});
        });
    }
    for (int round = 0; round < 20; ++round) {
        const int status = status_in_child([] {
            set_threads(2);
            return counts_of(50) == std::vector<int>(50, 1);
        });
        EXPECT_EQ(status, 0);
    }
    done = true;
    for (auto& caller : callers) caller.join();
}

TEST(ThreadPoolTest, APartMayFork) {
    SKIP_FORK_WITH_THREADS;
    const ThreadsGuard guard(2);
    std::atomic<int> failed{0};
    run_parts(4, [&](std::size_t) {
        failed += status_in_child([] { return counts_of(50) == std::vector<int>(50, 1); });
    });
    EXPECT_EQ(failed, 0);
}

// What happens at exit happens in a process of its own.
class ThreadPoolExitDeathTest : public ::testing::Test {
protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void exit_with(std::size_t count, void (*act)()) {
    alarm(60);
    set_threads(count);
    (void)counts_of(50);
    act();
    std::exit(7);
}

TEST_F(ThreadPoolExitDeathTest, AProcessEndsWithIdleThreads) {
    EXPECT_EXIT(exit_with(4, [] {}), ::testing::ExitedWithCode(7), "");
}

TEST_F(ThreadPoolExitDeathTest, AProcessEndsWithBusyThreads) {
    const auto act = [] {
        static std::atomic<int> rounds{0};
        for (int i = 0; i < 2; ++i) {
            std::thread([] {
                while (true) {
                    run_parts(10, [](std::size_t) {});
                    ++rounds;
                }
            }).detach();
        }
        while (rounds < 10) std::this_thread::sleep_for(1ms);
    };
    EXPECT_EXIT(exit_with(4, act), ::testing::ExitedWithCode(7), "");
}

TEST_F(ThreadPoolExitDeathTest, APartMayEndTheProcess) {
    const auto act = [] {
        run_parts(2, [caller = std::this_thread::get_id()](std::size_t) {
            if (std::this_thread::get_id() != caller) std::exit(5);
            std::this_thread::sleep_for(10s);
        });
    };
    EXPECT_EXIT(exit_with(2, act), ::testing::ExitedWithCode(5), "");
}

// A handler that was registered before the pool's own runs after it, when the threads are gone.
void exit_with_work_after_the_pool() {
    alarm(60);
    std::atexit([] {
        if (counts_of(50) != std::vector<int>(50, 1)) std::_Exit(1);
    });
    set_threads(3);
    (void)counts_of(50);
    std::exit(7);
}

TEST_F(ThreadPoolExitDeathTest, PartsRunAfterThePoolHasEnded) {
    EXPECT_EXIT(exit_with_work_after_the_pool(), ::testing::ExitedWithCode(7), "");
}

// FLASHBULB_THREADS, as a fresh process sees it.
void report_threads(const char* value) {
    setenv("FLASHBULB_THREADS", value, 1);
    std::size_t count = 0;
    try {
        count = threads();
    } catch (const std::invalid_argument& error) {
        std::fputs(error.what(), stderr);
        std::exit(200);
    }
    std::exit(count == available_processors() ? 100 : static_cast<int>(count));
}

TEST_F(ThreadPoolExitDeathTest, TheEnvironmentSetsTheThreads) {
    EXPECT_EXIT(report_threads("37"), ::testing::ExitedWithCode(37), "");
    EXPECT_EXIT(report_threads("0"), ::testing::ExitedWithCode(100), "");
    EXPECT_EXIT(report_threads(""), ::testing::ExitedWithCode(100), "");
    for (const char* bad : {"-1", "1025", "two", "3 ", "2.0", "99999999999999999999"}) {
        EXPECT_EXIT(report_threads(bad), ::testing::ExitedWithCode(200),
                    "FLASHBULB_THREADS must be an integer in \\[0, 1024\\].*got '");
    }
}

}  // namespace
}  // namespace flashbulb
