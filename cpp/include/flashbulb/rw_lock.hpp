#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace flashbulb {

/// Many readers or one writer, fair to both: a waiting writer holds back new readers, and when it
/// is done the readers that waited go before the next writer (phase-fair). Waiters sleep.
///
/// Not recursive. Whoever may hold an interpreter lock must give it up while waiting here.
class RwLock {
public:
    void lock_shared();    ///< Waits for the writers whose turn it is, then reads.
    void unlock_shared();  ///< @pre the caller reads
    void lock();           ///< Waits until nobody reads or writes, then writes.
    void unlock();         ///< @pre the caller writes

    /// Asked about ten times a second by a thread that waits, which gives up when the answer is
    /// true. It may wait for other threads, and must not throw.
    using Stop = std::function<bool()>;
    [[nodiscard]] bool lock_shared(const Stop& stop);  ///< @return whether the caller reads
    [[nodiscard]] bool lock(const Stop& stop);         ///< @return whether the caller writes

private:
    void admit_readers();
    void wake_a_writer();

    std::mutex mutex_;
    std::condition_variable readers_turn_;
    std::condition_variable writers_turn_;
    std::uint64_t readers_ = 0;          // inside
    std::uint64_t waiting_readers_ = 0;  // for the end of the next writer
    std::uint64_t waiting_writers_ = 0;
    std::uint64_t admitted_readers_ = 0;  // waited, and may enter before the next writer
    std::uint64_t turn_ = 0;              // how often waiting readers were admitted
    bool writer_ = false;                 // inside
};

}  // namespace flashbulb
