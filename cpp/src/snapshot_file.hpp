#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace flashbulb {

/// What a section of a snapshot file holds, in the order in which sections lie there. Numbers are
/// never used again for something else.
enum class SectionKind : std::uint32_t {
    id = 1,
    salience,
    floor,
    vividness,
    vividness_time,
    created,
    last_access,
    last_strength_change,
    urgency,
    access_count,
    flags,
    tag_count,
    tag_pool,
    tag_name_bytes,
    tag_names,
    sketch_codes,  // this one and the next three: a section for each chunk
    sketch_scales,
    sketch_residuals4,
    sketch_residuals8,
    vectors,
    shape,
};

/// One run of bytes in a snapshot file.
struct Section {
    SectionKind kind;
    std::uint32_t index;   ///< of several of a kind
    std::uint64_t offset;  ///< in the file, a multiple of 64
    std::uint64_t bytes;
    std::uint64_t block;  ///< bytes that have a checksum of their own; of the last one fewer
};

/// A block stays in the second cache level from the read to its checksum.
inline constexpr std::uint64_t default_block = std::uint64_t{256} << 10U;

/// The layout of a snapshot file, in the byte order of little-endian processors:
///
///     header      magic, version, byte order, generation, bytes of the file, place of the
///                 directory, its number of sections and checksum; a checksum of all that
///     sections    each from a multiple of 64 on
///     directory   the sections; then, section by section, a checksum of each of its blocks
///
/// The seed of a checksum is the generation and the place, so that a block of another place or
/// another file is noticed.
///
/// Writes such a file: section after section, in ascending order. If it is not finished, the file
/// is removed again.
class SnapshotFileWriter {
public:
    /// Creates the file. @param mode its permissions
    /// @throws std::system_error if that fails, or if there is a file
    SnapshotFileWriter(std::string path, std::uint64_t generation, unsigned mode);
    ~SnapshotFileWriter();
    SnapshotFileWriter(const SnapshotFileWriter&) = delete;
    SnapshotFileWriter& operator=(const SnapshotFileWriter&) = delete;

    /// Begins a section. @pre 0 < block <= default_block
    void begin(SectionKind kind, std::uint32_t index = 0, std::uint64_t block = default_block);
    /// Adds bytes to it. @throws std::system_error
    void append(const void* data, std::size_t bytes);
    /// Completes the file and waits until it is on the disk. @throws std::system_error
    void finish();

private:
    void end_section();
    void flush();
    void write(const void* data, std::size_t bytes, std::uint64_t offset);

    std::string path_;
    std::uint64_t generation_;
    int file_;
    std::uint64_t end_;  // of what is written or buffered
    std::vector<std::byte> buffer_;
    std::vector<Section> sections_;
    std::vector<std::uint64_t> sums_;
};

/// Reads such a file. Nothing in it is believed: offsets and sizes are checked before they are
/// used, and what is read is compared with its checksums.
class SnapshotFileReader {
public:
    /// Opens the file and checks all but the contents of the sections.
    /// @throws SnapshotError
    SnapshotFileReader(std::string path, std::uint64_t generation);
    ~SnapshotFileReader();
    SnapshotFileReader(const SnapshotFileReader&) = delete;
    SnapshotFileReader& operator=(const SnapshotFileReader&) = delete;

    [[nodiscard]] int descriptor() const noexcept { return file_; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    /// The section, or nullptr.
    [[nodiscard]] const Section* find(SectionKind kind, std::uint32_t index = 0) const noexcept;
    /// The section, which must have so many bytes. @throws SnapshotError
    [[nodiscard]] const Section& require(SectionKind kind, std::uint64_t bytes,
                                         std::uint32_t index = 0) const;

    /// What else is to be found out about a block, on any thread.
    using Check = std::function<void(std::span<const std::byte>)>;

    /// Asks for a section to be read into `out`, or only compared with its checksums if that is
    /// null. Done by read(), which gives each good block to `check`.
    void want(const Section& section, void* out, const Check* check = nullptr);
    /// Reads what was asked for, with several threads. @throws SnapshotError
    void read();

    /// @throws SnapshotError that names the file
    [[noreturn]] void refuse(const std::string& what) const;

private:
    struct Block {
        const Section* section;
        std::uint64_t offset;  // in the file
        std::size_t bytes;
        std::byte* out;
        std::uint64_t sum;
        const Check* check;
    };
    void check_header();
    void read_block(const Block& block) const;
    void read_bytes(void* out, std::size_t bytes, std::uint64_t offset) const;

    std::string path_;
    std::uint64_t generation_;
    int file_;
    std::uint64_t size_ = 0;
    std::vector<Section> sections_;
    std::vector<std::size_t> first_sums_;  // of each section, in sums_
    std::vector<std::uint64_t> sums_;
    std::vector<Block> wanted_;
};

}  // namespace flashbulb
