#include "flashbulb/rw_lock.hpp"

#include <chrono>

namespace flashbulb {

namespace {

constexpr std::chrono::milliseconds patience{100};

// Waits until ready() or, if there is a `stop`, until that says so, which is asked without the
// mutex. @return false: stopped, although it may be ready.
template <class Ready>
bool wait(std::condition_variable& changed, std::unique_lock<std::mutex>& guard,
          const RwLock::Stop& stop, Ready&& ready) {
    if (!stop) {
        changed.wait(guard, ready);
        return true;
    }
    while (!changed.wait_for(guard, patience, ready)) {
        guard.unlock();
        const bool stopped = stop();
        guard.lock();
        if (stopped) return false;
    }
    return true;
}

}  // namespace

void RwLock::lock_shared() { (void)lock_shared(nullptr); }

bool RwLock::lock_shared(const Stop& stop) {
    std::unique_lock guard(mutex_);
    if (writer_ || waiting_writers_ > 0) {
        const std::uint64_t turn = turn_;
        ++waiting_readers_;
        const bool goes_on = wait(readers_turn_, guard, stop, [&] { return turn_ != turn; });
        --(turn_ != turn ? admitted_readers_ : waiting_readers_);
        if (!goes_on) {
            wake_a_writer();
            return false;
        }
    }
    ++readers_;
    return true;
}

void RwLock::unlock_shared() {
    const std::lock_guard guard(mutex_);
    --readers_;
    wake_a_writer();
}

void RwLock::lock() { (void)lock(nullptr); }

bool RwLock::lock(const Stop& stop) {
    std::unique_lock guard(mutex_);
    ++waiting_writers_;
    const bool goes_on = wait(writers_turn_, guard, stop, [this] {
        return !writer_ && readers_ == 0 && admitted_readers_ == 0;
    });
    --waiting_writers_;
    if (goes_on) {
        writer_ = true;
    } else if (waiting_writers_ > 0) {
        wake_a_writer();  // this one may have been woken in its place
    } else if (!writer_) {
        admit_readers();  // this one alone held them back
    }
    return goes_on;
}

void RwLock::unlock() {
    const std::lock_guard guard(mutex_);
    writer_ = false;
    admit_readers();
    wake_a_writer();
}

void RwLock::admit_readers() {
    admitted_readers_ += waiting_readers_;
    waiting_readers_ = 0;
    ++turn_;
    readers_turn_.notify_all();
}

void RwLock::wake_a_writer() {
    if (!writer_ && readers_ == 0 && admitted_readers_ == 0) writers_turn_.notify_one();
}

}  // namespace flashbulb
