#include "flashbulb/thread_pool.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace flashbulb {

namespace {

constexpr std::size_t most_threads = 1024;

// 0.4 ms at 10 GB/s, what one thread reads of memory.
constexpr std::size_t worthwhile_bytes = std::size_t{4} << 20U;
constexpr std::size_t parts_a_thread = 4;

// Whether this thread runs a part: what it starts then runs in place.
thread_local bool inside_part = false;

// One call of run_parts(), on the caller's stack.
struct Job {
    void (*call)(void*, std::size_t);
    void* task;
    std::size_t parts;
    std::atomic<std::size_t> next{0};
    // Under the crew's mutex:
    std::size_t helpers = 0;  // other threads that are at it
    std::size_t visited = 0;  // when the last one came, by the crew's count
    std::exception_ptr error;
    std::condition_variable helpers_gone;
};

// A thread takes no signals: they are for the threads of the program.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

#ifdef __linux__
// Linux takes a processor of a virtual machine that has halted for a busy one. It then wakes a
// thread on the waker's own processor, and both share that for milliseconds beside an idle one.
// So the waker forbids its own processor for the moment of waking; the woken thread lifts it.
class Placement {
public:
    void keep_off_this_processor(std::thread& thread) {
        cpu_set_t others;
        const int here = sched_getcpu();
        if (here < 0 ||
            pthread_getaffinity_np(thread.native_handle(), sizeof allowed_, &allowed_) != 0) {
            return;
        }
        others = allowed_;
        CPU_CLR(static_cast<std::size_t>(here), &others);
        // An empty set is refused, and the thread wakes wherever it is.
        confined_ = pthread_setaffinity_np(thread.native_handle(), sizeof others, &others) == 0;
    }

    void lift() {
        if (confined_) sched_setaffinity(0, sizeof allowed_, &allowed_);
        confined_ = false;
    }

private:
    cpu_set_t allowed_{};
    bool confined_ = false;
};
#else
struct Placement {
    void keep_off_this_processor(std::thread&) {}
    void lift() {}
};
#endif

struct Worker {
    std::thread thread;
    std::condition_variable wake;
    bool summoned = false;  // under the crew's mutex, as is `leaving`
    bool leaving = false;
    Placement placement;  // the summoner's until `summoned` is set, then the thread's own
};

// The threads of one process, and the jobs that they may help with. Never destroyed, since other
// threads may be at work while the process exits; the threads are joined then.
class Crew {
public:
    Crew(pid_t process, std::size_t limit, const Crew* inherited)
        : process_(process), limit_(limit), inherited_(inherited) {}

    [[nodiscard]] pid_t process() const { return process_; }
    [[nodiscard]] std::size_t limit() const { return limit_.load(std::memory_order_relaxed); }

    void run(Job& job) {
        std::unique_lock guard(mutex_);
        if (!closed_) {
            std::size_t wanted = std::min(job.parts, limit()) - 1;
            jobs_.push_back(&job);
            job_count_.store(jobs_.size(), std::memory_order_relaxed);
            while (workers_.size() < wanted && start_worker()) {
            }
            for (; wanted > 0 && !sleepers_.empty(); --wanted) {
                const std::shared_ptr<Worker> last = std::move(sleepers_.back());
                sleepers_.pop_back();
                summon(last, guard);
            }
        }
        guard.unlock();
        while (take_part(job)) {
        }
        guard.lock();
        withdraw(job);
        job.helpers_gone.wait(guard, [&] { return job.helpers == 0; });
        if (job.error) std::rethrow_exception(job.error);
    }

    void resize(std::size_t limit) {
        const std::lock_guard one_at_a_time(resizing_);
        std::vector<std::shared_ptr<Worker>> leaving;
        {
            std::unique_lock guard(mutex_);
            limit_.store(limit, std::memory_order_relaxed);
            for (; workers_.size() > limit - 1; workers_.pop_back()) {
                workers_.back()->leaving = true;
                leaving.push_back(std::move(workers_.back()));
            }
            for (const auto& worker : leaving) {
                if (std::erase(sleepers_, worker) > 0) summon(worker, guard);
            }
        }
        for (const auto& worker : leaving) {
            // A part that ends the process cannot wait for its own thread.
            if (worker->thread.get_id() == std::this_thread::get_id()) {
                worker->thread.detach();
            } else {
                worker->thread.join();
            }
        }
    }

    void close() {
        {
            const std::lock_guard guard(mutex_);
            closed_ = true;
        }
        resize(1);
    }

private:
    // Wakes a thread that was taken off the sleepers. The mutex is free meanwhile, since a system
    // call may take longer than the thread to arrive; and it is not gone before it was summoned.
    static void summon(const std::shared_ptr<Worker>& worker, std::unique_lock<std::mutex>& guard) {
        guard.unlock();
        worker->placement.keep_off_this_processor(worker->thread);
        guard.lock();
        worker->summoned = true;
        guard.unlock();
        worker->wake.notify_one();
        guard.lock();
    }

    // Under the mutex. @return whether there is one more.
    bool start_worker() {
        const SignalsBlocked signals;
        try {
            sleepers_.reserve(workers_.size() + 1);  // to fall asleep allocates nothing
            workers_.push_back(std::make_shared<Worker>());
        } catch (const std::bad_alloc&) {
            return false;
        }
        try {
            workers_.back()->thread =
                std::thread([this, worker = workers_.back()] { work(worker); });
        } catch (const std::exception&) {  // no more threads or memory: fewer do as well
            workers_.pop_back();
            return false;
        }
        return true;
    }

    void work(const std::shared_ptr<Worker>& worker) {
        std::unique_lock guard(mutex_);
        while (!worker->leaving) {
            if (!jobs_.empty()) {
                help(**std::min_element(jobs_.begin(), jobs_.end(), needs_help_more), guard);
                continue;
            }
            worker->summoned = false;
            sleepers_.push_back(worker);
            worker->wake.wait(guard, [&] { return worker->summoned; });
            guard.unlock();
            worker->placement.lift();
            guard.lock();
        }
    }

    static bool needs_help_more(const Job* a, const Job* b) {
        return a->helpers != b->helpers ? a->helpers < b->helpers : a->visited < b->visited;
    }

    // Until no part is left or another caller may need help, or fewer threads are wanted.
    void help(Job& job, std::unique_lock<std::mutex>& guard) {
        const std::size_t limit_before = limit();
        ++job.helpers;
        job.visited = ++visits_;
        guard.unlock();
        bool more = true;
        do {
            more = take_part(job);
        } while (more && job_count_.load(std::memory_order_relaxed) < 2 && limit() == limit_before);
        guard.lock();
        if (!more) withdraw(job);
        // Under the mutex: once the caller sees it, the job is gone.
        if (--job.helpers == 0) job.helpers_gone.notify_one();
    }

    // @return false if there was no part left.
    bool take_part(Job& job) {
        const std::size_t part = job.next.fetch_add(1, std::memory_order_relaxed);
        if (part >= job.parts) return false;
        inside_part = true;
        try {
            job.call(job.task, part);
        } catch (...) {
            job.next.store(job.parts, std::memory_order_relaxed);
            const std::lock_guard guard(mutex_);
            if (!job.error) job.error = std::current_exception();
        }
        inside_part = false;
        return true;
    }

    void withdraw(const Job& job) {
        std::erase(jobs_, &job);
        job_count_.store(jobs_.size(), std::memory_order_relaxed);
    }

    const pid_t process_;
    std::mutex mutex_;
    std::vector<Job*> jobs_;  // with parts that nobody has begun
    std::atomic<std::size_t> job_count_{0};
    std::size_t visits_ = 0;
    std::vector<std::shared_ptr<Worker>> workers_;
    std::vector<std::shared_ptr<Worker>> sleepers_;
    std::atomic<std::size_t> limit_;
    bool closed_ = false;
    std::mutex resizing_;
    // Of the process that this one was forked from: kept in reach, never touched, since no thread
    // is here that could release its locks.
    [[maybe_unused]] const Crew* inherited_;
};

std::atomic<Crew*> current_crew{nullptr};

void close_crew() {
    Crew* const crew = current_crew.load(std::memory_order_acquire);
    if (crew->process() == getpid()) crew->close();
}

[[noreturn]] void refuse(const std::string& what, const std::string& got) {
    throw std::invalid_argument(what + " must be an integer in [0, " +
                                std::to_string(most_threads) + "] (0: the available processors), " +
                                "got " + got);
}

std::size_t checked(std::size_t count) {
    if (count > most_threads) refuse("the number of threads", std::to_string(count));
    return count == 0 ? available_processors() : count;
}

std::size_t initial_threads() {
    const char* const wanted = std::getenv("FLASHBULB_THREADS");
    if (wanted == nullptr || *wanted == '\0') return available_processors();
    const std::string text(wanted);
    std::size_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || count > most_threads) {
        refuse("FLASHBULB_THREADS", "'" + text + "'");
    }
    return checked(count);
}

// The crew of this process: a new one at first use and in a forked child.
Crew& own_crew() {
    const pid_t process = getpid();
    Crew* crew = current_crew.load(std::memory_order_acquire);
    while (crew == nullptr || crew->process() != process) {
        auto fresh = std::make_unique<Crew>(
            process, crew == nullptr ? initial_threads() : crew->limit(), crew);
        const bool first = crew == nullptr;
        if (current_crew.compare_exchange_strong(crew, fresh.get(), std::memory_order_acq_rel)) {
            if (first) std::atexit(close_crew);  // a child inherits the registration
            crew = fresh.release();
        }
    }
    return *crew;
}

#ifdef __linux__
std::size_t processors_by_affinity() {
    for (std::size_t room = 1024; room <= 1U << 20U; room *= 2) {
        cpu_set_t* const set = CPU_ALLOC(room);
        if (set == nullptr) break;
        const std::size_t bytes = CPU_ALLOC_SIZE(room);
        const bool known = sched_getaffinity(0, bytes, set) == 0;
        const int count = known ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (known) return static_cast<std::size_t>(std::max(count, 1));
    }
    return std::max(1U, std::thread::hardware_concurrency());
}

// Processors that the quota of the control group is worth, rounded up; 0: no quota.
std::size_t processors_by_quota() {
    double quota = -1.0;
    double period = 0.0;
    // Version 2 says "max 100000" where there is no quota, which is no number.
    if (std::ifstream both("/sys/fs/cgroup/cpu.max"); both >> quota >> period) {
    } else if (std::ifstream first("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"); first >> quota) {
        std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
    }
    if (!(quota > 0.0) || !(period > 0.0)) return 0;
    const auto whole = static_cast<std::size_t>(quota / period);
    return static_cast<double>(whole) * period < quota ? whole + 1 : whole;
}
#endif

}  // namespace

std::size_t available_processors() {
#ifdef __linux__
    std::size_t count = processors_by_affinity();
    if (const std::size_t quota = processors_by_quota(); quota != 0) count = std::min(count, quota);
#else
    const std::size_t count = std::max(1U, std::thread::hardware_concurrency());
#endif
    return std::min(count, most_threads);
}

std::size_t threads() { return own_crew().limit(); }

void set_threads(std::size_t count) {
    if (inside_part) throw std::logic_error("set_threads was called from inside a part");
    own_crew().resize(checked(count));
}

std::size_t parts_for(std::size_t bytes) {
    const std::size_t count = threads();
    if (count == 1 || bytes < worthwhile_bytes) return 1;
    return std::min(count * parts_a_thread, bytes / (worthwhile_bytes / 8));
}

void detail::run_parts(std::size_t parts, void (*call)(void*, std::size_t), void* task) {
    if (parts > 1 && !inside_part) {
        if (Crew& crew = own_crew(); crew.limit() > 1) {
            Job job{call, task, parts, {}, 0, 0, nullptr, {}};
            return crew.run(job);
        }
    }
    for (std::size_t part = 0; part < parts; ++part) call(task, part);
}

}  // namespace flashbulb
