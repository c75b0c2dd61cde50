#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "flashbulb/bonus_bounds.hpp"
#include "flashbulb/column.hpp"
#include "flashbulb/policy.hpp"
#include "flashbulb/tags.hpp"

namespace flashbulb {

/// Stands for "never" in a time and for "not a task" in an urgency.
inline constexpr double none = std::numeric_limits<double>::quiet_NaN();

enum class TaskStatus : std::uint8_t { not_a_task = 0, open = 1, completed = 2 };

/// One memory trace, as it goes in and comes out. Times are epoch seconds.
struct Trace {
    std::int64_t id = 0;                 ///< above that of every earlier row
    double salience = 0.0;               ///< [0, 1]
    double floor = 0.0;                  ///< [0, 1]; vividness never fades below it
    double vividness = 1.0;              ///< anchor v0, [floor, 1]
    double vividness_time = 0.0;         ///< time of the anchor
    double created = 0.0;                ///< when the event happened
    double last_access = none;           ///< recency counts from the later of this and `created`
    double last_strength_change = none;  ///< by access or suppression
    double urgency = none;               ///< [0, 1]
    std::int64_t access_count = 0;       ///< how often it was touched
    TaskStatus status = TaskStatus::not_a_task;  ///< not a task if and only if urgency is none
    bool pinned = false;                         ///< vividness 1, no decay, no suppression
};

/// What a table without tombstones is made of, as a snapshot keeps it: one value a row, as in
/// Trace.
struct TraceColumns {
    Column<std::int64_t> id;              ///< ascending
    Column<double> salience;              ///< in [0, 1], as the next two
    Column<double> floor;                 ///< of vividness
    Column<double> vividness;             ///< anchor v0
    Column<double> vividness_time;        ///< its time t0
    Column<double> created;               ///< when the event happened
    Column<double> last_access;           ///< or none
    Column<double> last_strength_change;  ///< or none
    Column<double> urgency;               ///< of a task, or none
    Column<std::int64_t> access_count;    ///< how often it was touched
    Column<std::uint8_t> flags;           ///< TraceTable::task, completed and pinned
    Column<std::uint32_t> tag_count;      ///< tags of the row
    Column<TagId> tag_pool;               ///< those of all rows, one row after the other
};

/// The traces of all rows of an engine, as columns. Row r belongs to vector r. Ids ascend with the
/// rows and are never used twice; a removed row stays behind as a tombstone until `compact`.
///
/// Not synchronised: const calls may run at the same time, any other call must run alone.
class TraceTable {
public:
    /// @throws std::invalid_argument if the policy is not valid.
    explicit TraceTable(const Policy& policy);

    /// A table with these rows.
    /// @throws std::invalid_argument if the policy is not valid, columns do not fit together, a tag
    ///         is not below `tags`, or as append does.
    TraceTable(const Policy& policy, TraceColumns columns, std::size_t tags);

    /// The constants that are in use.
    [[nodiscard]] const Policy& policy() const noexcept { return policy_; }
    /// Rows, tombstones included.
    [[nodiscard]] std::size_t rows() const noexcept { return id_.size(); }
    /// Rows that have not been removed.
    [[nodiscard]] std::size_t live() const noexcept { return live_; }
    /// Lowest id that has never been used; ids of removed rows are not given again.
    [[nodiscard]] std::int64_t next_id() const noexcept { return next_id_; }
    /// Declares every id below `id` as used. @throws std::invalid_argument if that goes back.
    void set_next_id(std::int64_t id);

    /// Appends traces with their tags (one span each, or none at all).
    /// @throws std::invalid_argument if an id is not above every earlier one, a value is not finite
    ///         or out of range, or the number of tag sets differs. Nothing is changed then.
    void append(std::span<const Trace> traces, std::span<const std::vector<TagId>> tags);

    /// Gives rows other traces, of the same ids and creation.
    /// @throws std::invalid_argument as append, or for another id. Nothing is changed then.
    void replace(std::span<const std::size_t> rows, std::span<const Trace> traces);

    /// Row of a live id.
    [[nodiscard]] std::optional<std::size_t> find(std::int64_t id) const noexcept;

    /// A row as it could be appended again.
    [[nodiscard]] Trace trace(std::size_t row) const;
    /// Tags of a row, as appended.
    [[nodiscard]] std::span<const TagId> tags(std::size_t row) const noexcept;
    /// Whether the row has not been removed.
    [[nodiscard]] bool is_live(std::size_t row) const noexcept { return (flags_[row] & dead) == 0; }
    /// Live rows in ascending order (which is the order of ids).
    [[nodiscard]] std::vector<std::size_t> live_rows() const;
    /// Vividness of one row at `now`, with or without the task terms.
    [[nodiscard]] double vividness(std::size_t row, double now, bool effective) const noexcept;
    /// Vividness of every row at `now`, tombstones included.
    [[nodiscard]] std::vector<double> all_vividness(double now) const;
    /// What vividness and recency add to the score of every row at `now`, before any ramp.
    /// @param vividness,recency rows() values each, written here
    /// @throws std::invalid_argument if one of them has another length
    void all_bonuses(double now, double vividness_weight, double recency_weight,
                     std::span<double> vividness, std::span<double> recency) const;

    /// Bounds of the bonus of every row from some moment at or before `now` on, made at the first
    /// call and again when what decay takes since then exceeds a thousandth. Valid until the next
    /// change, which keeps them up to date.
    /// @return null if `now` lies before them: then compute directly.
    [[nodiscard]] std::shared_ptr<const BonusBounds> bonus_bounds(double now) const;

    /// v <- min(v + gain, 1), at most once per `strength_interval_seconds`. Not an access: nothing
    /// is counted.
    /// @pre gain is finite and not negative.
    void strengthen(std::size_t row, double gain, double now) noexcept;
    /// Access (reinforcement): v <- min(v + boost (1 + gain s), 1), count + 1, last access = now.
    /// Strength moves at most once per `strength_interval_seconds`; the count is always exact.
    void touch(std::size_t row, double now) noexcept;
    /// Retrieval-induced forgetting by an accessed memory of cosine `cosine`:
    /// v <- max(v - strength cosine, floor). @return whether the memory was open to it.
    bool suppress(std::size_t row, double cosine, double now) noexcept;
    /// Marks a task as completed, unpins it and lowers its floor by one class.
    /// @pre the row is a task. Completing a completed task changes nothing.
    void complete(std::size_t row, double now) noexcept;
    /// Holds vividness at 1 from now on, without decay or suppression.
    void pin(std::size_t row, double now) noexcept;
    /// Lets it fade again, from 1 at `now`.
    void unpin(std::size_t row, double now) noexcept;
    /// Leaves a tombstone; the id is never given again.
    void remove(std::size_t row) noexcept;

    /// Re-anchors every row at `now`. A row whose anchor lies after `now` keeps it.
    void materialize_decay(double now);
    /// Takes another policy from now on; re-anchor first, or the past is rewritten.
    /// @throws std::invalid_argument if the policy is not valid.
    void set_policy(const Policy& policy);
    /// Drops the tombstones. @return the old numbers of the rows that stay.
    std::vector<std::size_t> compact();

    /// Live rows that have all of these tags, ascending.
    [[nodiscard]] std::vector<std::size_t> rows_with_tags(std::span<const TagId> wanted) const;
    /// The live row with all of these tags that was created last (of equal ones the highest id).
    [[nodiscard]] std::optional<std::size_t> newest_with_tags(std::span<const TagId> wanted) const;
    /// Whether the row has all of these tags; the Bloom word has been looked at or not.
    [[nodiscard]] bool has_tags(std::size_t row, std::span<const TagId> wanted) const noexcept;

    /// For rows from `begin`: mask[i] becomes 0 if row begin + i lacks one of these tags. The Bloom
    /// words reject most rows, the exact sets decide on those left whose mask is not 0.
    void filter_tags(std::size_t begin, std::size_t count, std::span<const TagId> wanted,
                     std::uint8_t* mask) const;

    // Flags of a row, for the filters of a search.
    static constexpr std::uint8_t dead = 1;        ///< removed
    static constexpr std::uint8_t task = 2;        ///< open or completed
    static constexpr std::uint8_t completed = 4;   ///< a task that is done
    static constexpr std::uint8_t pinned = 8;      ///< exempt from decay and suppression
    static constexpr std::uint8_t flashbulb = 16;  ///< pinned, or of a flashbulb's salience

    /// Columns for a scan; valid until the next change.
    struct Columns {
        const double* vividness;         ///< anchor v0
        const double* vividness_time;    ///< its time t0
        const double* decay_rate;        ///< per second; 0 if pinned
        const double* floor;             ///< stability floor
        const double* task_shift;        ///< what the task state adds to vividness
        const double* bonus_salience;    ///< salience that counts in the bonus
        const double* recency_time;      ///< later of creation and last access
        const double* created;           ///< when the event happened
        const std::uint8_t* flags;       ///< dead, task, completed, pinned, flashbulb
        const std::uint64_t* tag_bloom;  ///< tag_bloom() of the tags
        const std::int64_t* id;          ///< ascending
        const double* salience;          ///< as appended
    };
    /// All columns, rows() values each.
    [[nodiscard]] Columns columns() const noexcept;

    /// Bytes of all columns with their tags and the bounds of the bonus.
    [[nodiscard]] std::size_t memory_bytes() const noexcept;

private:
    void derive(std::size_t row) noexcept;
    void bound(std::size_t begin, std::size_t count, BonusBounds& bounds) const noexcept;
    void changed(std::size_t row) noexcept;
    void anchor(std::size_t row, double vividness, double now) noexcept;
    [[nodiscard]] bool strength_may_move(std::size_t row, double now) const noexcept;

    Policy policy_;
    std::size_t live_ = 0;
    std::int64_t next_id_ = 0;

    Column<std::int64_t> id_;
    Column<double> salience_;
    Column<double> floor_;
    Column<double> vividness_;
    Column<double> vividness_time_;
    Column<double> created_;
    Column<double> last_access_;
    Column<double> last_strength_change_;
    Column<double> urgency_;
    Column<std::int64_t> access_count_;
    Column<std::uint8_t> flags_;
    Column<std::uint64_t> tag_bloom_;
    Column<std::size_t> tag_end_;  // tags of row r: tag_pool_[tag_end_[r-1] .. tag_end_[r])
    Column<TagId> tag_pool_;

    // Derived from the columns above and the policy, so that a scan needs no branches.
    Column<double> decay_rate_;      // per second; 0 when pinned
    Column<double> task_shift_;      // what the task state adds to vividness
    Column<double> bonus_salience_;  // salience that counts in the bonus
    Column<double> recency_time_;    // later of creation and last access

    BonusBoundsCache bounds_;
};

}  // namespace flashbulb
