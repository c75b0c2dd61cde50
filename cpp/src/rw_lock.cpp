#include "flashbulb/rw_lock.hpp"

namespace flashbulb {

void RwLock::lock_shared() {
    std::unique_lock guard(mutex_);
    if (writer_ || waiting_writers_ > 0) {
        const std::uint64_t turn = turn_;
        ++waiting_readers_;
        readers_turn_.wait(guard, [&] { return turn_ != turn; });
        --admitted_readers_;
    }
    ++readers_;
}

void RwLock::unlock_shared() {
    const std::lock_guard guard(mutex_);
    --readers_;
    if (readers_ == 0 && admitted_readers_ == 0) writers_turn_.notify_one();
}

void RwLock::lock() {
    std::unique_lock guard(mutex_);
    ++waiting_writers_;
    writers_turn_.wait(guard,
                       [this] { return !writer_ && readers_ == 0 && admitted_readers_ == 0; });
    --waiting_writers_;
    writer_ = true;
}

void RwLock::unlock() {
    const std::lock_guard guard(mutex_);
    writer_ = false;
    admitted_readers_ = waiting_readers_;
    waiting_readers_ = 0;
    ++turn_;
    if (admitted_readers_ > 0) {
        readers_turn_.notify_all();
    } else {
        writers_turn_.notify_one();
    }
}

}  // namespace flashbulb
