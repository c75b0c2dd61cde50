#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "flashbulb/sketch.hpp"
#include "flashbulb/tags.hpp"
#include "flashbulb/traces.hpp"
#include "flashbulb/views.hpp"

namespace flashbulb {

/// A file does not hold the snapshot that was looked for: it is missing, damaged, or another one.
/// The message names the file and the place.
class SnapshotError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Float32 rows out of a file, at an address that is a multiple of 64. What is written to them
/// never gets into the file.
class StoredRows {
public:
    /// Private, writable memory in which the file's bytes from `offset` on appear when they are
    /// touched. A process dies of SIGBUS when it touches what somebody has cut off the file.
    static StoredRows mapped(int descriptor, std::uint64_t offset, std::size_t rows,
                             std::size_t dim);
    /// Room for rows that are read into it.
    static StoredRows in_memory(std::size_t rows, std::size_t dim);

    StoredRows(StoredRows&& other) noexcept;             ///< leaves no rows behind
    StoredRows& operator=(StoredRows&& other) noexcept;  ///< exchanges them
    ~StoredRows();

    /// Row after row; null if there are none.
    [[nodiscard]] float* data() const noexcept { return data_; }
    /// How many.
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    /// Values of a row.
    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    /// A view of all of them.
    [[nodiscard]] VectorView view() const { return VectorView({{data_, 0, rows_}}, dim_); }

private:
    StoredRows(std::size_t rows, std::size_t dim) : rows_(rows), dim_(dim) {}

    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
    float* data_ = nullptr;
    std::size_t rows_;
    std::size_t dim_;
};

/// The rows of an engine with all that is derived from them, as they were at one moment.
struct Snapshot {
    StoredRows vectors;            ///< one row for each of the traces
    TraceTable traces;             ///< without tombstones
    TagDictionary tags;            ///< those of the traces
    std::optional<Sketch> sketch;  ///< of the vectors, if there was one that still fits
};

/// From so many bytes on, vectors are mapped and not read into memory: they then take room only in
/// the cache of the system, which it can use for something else.
inline constexpr std::size_t map_from_bytes = std::size_t{64} << 20U;

/// Writes a snapshot of all live rows to a new file and waits until it is on the disk; the folder
/// is the caller's to sync. Tags and rows that were removed are not in it.
/// @param generation what tells this snapshot from every other one of the same store
/// @param mode permissions of the file, as the umask allows
/// @param sketch of the same rows, or nullptr
/// @throws std::system_error if the file cannot be written (or is there already), and
///         std::invalid_argument if the rows are not float32 in segments, or do not fit together;
///         no file is left then
void write_snapshot(const std::string& path, std::uint64_t generation, unsigned mode,
                    const VectorView& vectors, const TraceTable& traces, const TagDictionary& tags,
                    const Sketch* sketch);

/// Reads a snapshot, all of which is compared with its checksums first. What the file says is not
/// believed: memory is taken only for what is there.
/// @param dim what the vectors must have
/// @throws SnapshotError
[[nodiscard]] Snapshot read_snapshot(const std::string& path, std::uint64_t generation,
                                     std::size_t dim, const Policy& policy,
                                     std::size_t map_from = map_from_bytes);

}  // namespace flashbulb
