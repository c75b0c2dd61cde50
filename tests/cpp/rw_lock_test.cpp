#include "flashbulb/rw_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace flashbulb {
namespace {

using namespace std::chrono_literals;

// Gives threads that were started time to reach the lock and sleep there. The order of events
// asserted below holds whenever they do; the time is far more than they need.
void let_others_wait() { std::this_thread::sleep_for(200ms); }

TEST(RwLockTest, ReadersAreInsideTogether) {
    RwLock lock;
    std::atomic<int> inside{0};
    const auto reader = [&] {
        const std::shared_lock guard(lock);
        ++inside;
        while (inside < 3) std::this_thread::yield();  // ends only if all three are inside
    };
    std::thread first(reader), second(reader), third(reader);
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(inside, 3);
}

TEST(RwLockTest, WritersAreAlone) {
    RwLock lock;
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::atomic<int> torn{0};
    std::vector<std::thread> threads;
    constexpr int rounds = 2000;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < rounds; ++round) {
                const std::scoped_lock guard(lock);
                ++first;
                ++second;
            }
        });
        threads.emplace_back([&] {
            for (int round = 0; round < rounds; ++round) {
                const std::shared_lock guard(lock);
                if (first != second) ++torn;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(torn, 0);
    EXPECT_EQ(first, 3 * rounds);
    EXPECT_EQ(second, 3 * rounds);
}

// With readers always inside, a lock that prefers them would never let the writer in.
TEST(RwLockTest, WritersAreNotStarvedByReaders) {
    RwLock lock;
    std::atomic<bool> done{false};
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
        readers.emplace_back([&] {
            while (!done) {
                const std::shared_lock guard(lock);
                std::this_thread::sleep_for(1ms);
            }
        });
    }
    for (int round = 0; round < 20; ++round) {
        const std::scoped_lock guard(lock);
    }
    done = true;
    for (auto& reader : readers) reader.join();
}

TEST(RwLockTest, ReadersAreNotStarvedByWriters) {
    RwLock lock;
    std::atomic<bool> done{false};
    std::vector<std::thread> writers;
    for (int i = 0; i < 4; ++i) {
        writers.emplace_back([&] {
            while (!done) {
                const std::scoped_lock guard(lock);
                std::this_thread::sleep_for(1ms);
            }
        });
    }
    for (int round = 0; round < 20; ++round) {
        const std::shared_lock guard(lock);
    }
    done = true;
    for (auto& writer : writers) writer.join();
}

TEST(RwLockTest, AWaitingWriterHoldsBackNewReaders) {
    RwLock lock;
    std::mutex mutex;
    std::string order;
    const auto note = [&](char what) {
        const std::lock_guard guard(mutex);
        order += what;
    };
    lock.lock_shared();
    std::thread writer([&] {
        const std::scoped_lock guard(lock);
        note('w');
    });
    let_others_wait();
    std::thread reader([&] {
        const std::shared_lock guard(lock);
        note('r');
    });
    let_others_wait();
    note('0');
    lock.unlock_shared();
    writer.join();
    reader.join();
    EXPECT_EQ(order, "0wr");
}

TEST(RwLockTest, ReadersThatWaitedGoBeforeTheNextWriter) {
    RwLock lock;
    std::mutex mutex;
    std::string order;
    const auto note = [&](char what) {
        const std::lock_guard guard(mutex);
        order += what;
    };
    const auto write = [&] {
        const std::scoped_lock guard(lock);
        note('w');
    };
    const auto read = [&] {
        const std::shared_lock guard(lock);
        note('r');
    };
    lock.lock();
    std::thread writer(write);  // waits before the readers do
    let_others_wait();
    std::thread first(read), second(read), third(read);
    let_others_wait();
    lock.unlock();
    for (auto* thread : {&writer, &first, &second, &third}) thread->join();
    EXPECT_EQ(order, "rrrw");
}

TEST(RwLockTest, AWaitMayBeGivenUp) {
    RwLock lock;
    std::atomic<int> asked{0};
    const auto third_time = [&] { return ++asked >= 3; };
    lock.lock();
    EXPECT_FALSE(lock.lock(third_time));
    EXPECT_EQ(asked, 3);
    asked = 0;
    EXPECT_FALSE(lock.lock_shared(third_time));
    EXPECT_EQ(asked, 3);
    lock.unlock();
    // Nobody was counted who is not there.
    EXPECT_TRUE(lock.lock(third_time));
    lock.unlock();
    EXPECT_TRUE(lock.lock_shared(third_time));
    EXPECT_FALSE(lock.lock([] { return true; }));
    EXPECT_TRUE(lock.lock_shared(third_time));
    lock.unlock_shared();
    lock.unlock_shared();
    EXPECT_EQ(asked, 3);
}

TEST(RwLockTest, AWriterThatGivesUpLetsTheReadersInThatItHeldBack) {
    RwLock lock;
    lock.lock_shared();
    std::atomic<bool> stop{false};
    std::thread writer([&] { EXPECT_FALSE(lock.lock([&] { return stop.load(); })); });
    let_others_wait();
    std::thread reader([&] { const std::shared_lock guard(lock); });
    let_others_wait();
    stop = true;
    writer.join();
    reader.join();  // while the first reader is still inside
    lock.unlock_shared();
    const std::scoped_lock guard(lock);
}

TEST(RwLockTest, AWriterThatGivesUpLeavesTheTurnToTheNext) {
    RwLock lock;
    lock.lock();
    std::atomic<bool> stop{false};
    std::thread first([&] { EXPECT_FALSE(lock.lock([&] { return stop.load(); })); });
    std::thread second([&] { const std::scoped_lock guard(lock); });
    std::thread reader([&] { EXPECT_FALSE(lock.lock_shared([&] { return stop.load(); })); });
    let_others_wait();
    stop = true;
    first.join();
    reader.join();
    lock.unlock();
    second.join();
}

// Whoever gives up is in nobody's way, whenever that happens.
TEST(RwLockTest, GivingUpAtAnyMomentLosesNoTurn) {
    RwLock lock;
    std::atomic<int> inside{0};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < 15; ++round) {
                // Hold the lock for about as long as the others are patient.
                if (lock.lock([&] { return (round + i) % 2 == 0; })) {
                    if (++inside != 1) ++wrong;
                    std::this_thread::sleep_for(35ms);
                    --inside;
                    lock.unlock();
                }
            }
        });
        threads.emplace_back([&, i] {
            for (int round = 0; round < 15; ++round) {
                if (lock.lock_shared([&] { return (round + i) % 3 == 0; })) {
                    if (inside != 0) ++wrong;
                    std::this_thread::sleep_for(10ms);
                    lock.unlock_shared();
                }
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    const std::scoped_lock guard(lock);
}

}  // namespace
}  // namespace flashbulb
