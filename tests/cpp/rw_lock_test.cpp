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

}  // namespace
}  // namespace flashbulb
