#include "snapshot_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "checksum.hpp"
#include "flashbulb/snapshot.hpp"
#include "flashbulb/thread_pool.hpp"

namespace flashbulb {

namespace {

constexpr std::array<char, 8> magic = {'F', 'L', 'B', 'H', 's', 'n', 'a', 'p'};
constexpr std::uint32_t version = 1;
constexpr std::uint32_t byte_order = 0x01020304;
constexpr std::size_t alignment = 64;

struct Header {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t byte_order;
    std::uint64_t generation;
    std::uint64_t file_bytes;
    std::uint64_t directory;
    std::uint64_t sections;
    std::uint64_t directory_sum;
    std::uint64_t sum;  // of all before it
};
static_assert(sizeof(Header) == alignment);
static_assert(sizeof(Section) == 32);

std::uint64_t aligned(std::uint64_t offset) {
    return (offset + alignment - 1) / alignment * alignment;
}

std::uint64_t blocks_of(const Section& section) {
    return section.bytes / section.block + (section.bytes % section.block != 0 ? 1 : 0);
}

std::uint64_t sum_at(std::span<const std::byte> data, std::uint64_t generation,
                     std::uint64_t offset) {
    return checksum(data, generation + offset * 0x9E3779B97F4A7C15U);
}

std::uint64_t header_sum(const Header& header) {
    return checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, sum)), version);
}

std::string name_of(SectionKind kind) {
    constexpr std::array names = {
        "id",
        "salience",
        "floor",
        "vividness",
        "vividness_time",
        "created",
        "last_access",
        "last_strength_change",
        "urgency",
        "access_count",
        "flags",
        "tag_count",
        "tag_pool",
        "tag_name_bytes",
        "tag_names",
        "sketch_codes",
        "sketch_scales",
        "sketch_residuals4",
        "sketch_residuals8",
        "vectors",
        "shape",
    };
    const std::size_t place = static_cast<std::size_t>(kind) - 1;
    return place < names.size() ? names[place] : std::to_string(place + 1);
}

[[noreturn]] void fail(const std::string& path) {
    throw std::system_error(errno, std::generic_category(), path);
}

}  // namespace

// -- writing -------------------------------------------------------------------------------------

SnapshotFileWriter::SnapshotFileWriter(std::string path, std::uint64_t generation, unsigned mode)
    : path_(std::move(path)),
      generation_(generation),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)),
      end_(sizeof(Header)) {
    if (file_ < 0) fail(path_);
    buffer_.reserve(default_block);
}

SnapshotFileWriter::~SnapshotFileWriter() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(path_.c_str());
}

void SnapshotFileWriter::begin(SectionKind kind, std::uint32_t index, std::uint64_t block) {
    end_section();
    end_ = aligned(end_);
    sections_.push_back({kind, index, end_, 0, block});
}

void SnapshotFileWriter::append(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    while (bytes > 0) {
        const std::size_t part = std::min(bytes, sections_.back().block - buffer_.size());
        buffer_.insert(buffer_.end(), from, from + part);
        from += part;
        bytes -= part;
        if (buffer_.size() == sections_.back().block) flush();
    }
}

// Blocks are counted from the beginning of their section.
void SnapshotFileWriter::flush() {
    sums_.push_back(sum_at(buffer_, generation_, end_));
    write(buffer_.data(), buffer_.size(), end_);
    end_ += buffer_.size();
    buffer_.clear();
}

void SnapshotFileWriter::end_section() {
    if (sections_.empty()) return;
    if (!buffer_.empty()) flush();
    sections_.back().bytes = end_ - sections_.back().offset;
}

void SnapshotFileWriter::finish() {
    end_section();
    const std::uint64_t place = aligned(end_);
    std::vector<std::byte> directory(sections_.size() * sizeof(Section) +
                                     sums_.size() * sizeof(std::uint64_t));
    const auto listed = std::as_bytes(std::span(sections_));
    const auto sums = std::as_bytes(std::span(sums_));
    std::copy(sums.begin(), sums.end(), std::copy(listed.begin(), listed.end(), directory.begin()));
    Header header{magic,
                  version,
                  byte_order,
                  generation_,
                  place + directory.size(),
                  place,
                  sections_.size(),
                  sum_at(directory, generation_, place),
                  0};
    header.sum = header_sum(header);
    write(directory.data(), directory.size(), place);
    write(&header, sizeof header, 0);
    if (::fsync(file_) != 0) fail(path_);
    if (::close(std::exchange(file_, -1)) != 0) {
        const int error = errno;
        ::unlink(path_.c_str());
        errno = error;
        fail(path_);
    }
}

void SnapshotFileWriter::write(const void* data, std::size_t bytes, std::uint64_t offset) {
    const auto* from = static_cast<const std::byte*>(data);
    while (bytes > 0) {
        const ssize_t done = ::pwrite(file_, from, bytes, static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            if (done == 0) errno = ENOSPC;
            fail(path_);
        }
        from += done;
        bytes -= static_cast<std::size_t>(done);
        offset += static_cast<std::uint64_t>(done);
    }
}

// -- reading -------------------------------------------------------------------------------------

SnapshotFileReader::SnapshotFileReader(std::string path, std::uint64_t generation)
    : path_(std::move(path)),
      generation_(generation),
      file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0) refuse(std::strerror(errno));
    try {
        check_header();
    } catch (...) {
        ::close(file_);
        throw;
    }
}

SnapshotFileReader::~SnapshotFileReader() { ::close(file_); }

void SnapshotFileReader::refuse(const std::string& what) const {
    throw SnapshotError(path_ + ": " + what);
}

void SnapshotFileReader::check_header() {
    struct stat status {};
    if (::fstat(file_, &status) != 0) refuse(std::strerror(errno));
    if (!S_ISREG(status.st_mode)) refuse("it is not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
    Header header{};
    if (size_ < sizeof header) {
        refuse("a header has " + std::to_string(sizeof header) + " bytes, the file ends after " +
               std::to_string(size_));
    }
    read_bytes(&header, sizeof header, 0);
    if (header.magic != magic) refuse("it does not begin like a snapshot");
    if (header.byte_order != byte_order) refuse("it was written with another order of bytes");
    if (header.version != version) {
        refuse("it needs version " + std::to_string(header.version) +
               " of the snapshot format, this Flashbulb reads version " + std::to_string(version));
    }
    if (header.sum != header_sum(header)) refuse("the header differs from its checksum");
    if (header.generation != generation_) {
        refuse("it is generation " + std::to_string(header.generation) + ", expected " +
               std::to_string(generation_));
    }
    if (header.file_bytes != size_) {
        refuse("expected " + std::to_string(header.file_bytes) + " bytes, the file has " +
               std::to_string(size_));
    }
    const std::uint64_t directory_bytes = size_ - std::min(size_, header.directory);
    if (header.directory < sizeof header || header.sections > directory_bytes / sizeof(Section)) {
        refuse("the directory lies outside the file");
    }
    std::vector<std::byte> directory(static_cast<std::size_t>(directory_bytes));
    read_bytes(directory.data(), directory.size(), header.directory);
    if (sum_at(directory, generation_, header.directory) != header.directory_sum) {
        refuse("the directory at byte " + std::to_string(header.directory) +
               " differs from its checksum");
    }
    sections_.resize(static_cast<std::size_t>(header.sections));
    const std::size_t listed = sections_.size() * sizeof(Section);
    if (listed > 0) std::memcpy(sections_.data(), directory.data(), listed);
    sums_.resize((directory.size() - listed) / sizeof(std::uint64_t));
    if (!sums_.empty()) {
        std::memcpy(sums_.data(), directory.data() + listed, sums_.size() * sizeof(std::uint64_t));
    }
    // One after the other without a gap: then none lies outside, or in another.
    std::uint64_t end = sizeof header;
    std::uint64_t blocks = 0;
    for (const Section& section : sections_) {
        const bool ascends = &section == sections_.data() ||
                             std::pair(section.kind, section.index) >
                                 std::pair((&section - 1)->kind, (&section - 1)->index);
        if (!ascends || section.offset != aligned(end) || section.offset > header.directory ||
            section.bytes > header.directory - section.offset || section.block == 0 ||
            section.block > default_block) {
            refuse("section " + name_of(section.kind) +
                   " lies at a wrong place, or in blocks of a wrong size");
        }
        end = section.offset + section.bytes;
        first_sums_.push_back(static_cast<std::size_t>(blocks));
        blocks += blocks_of(section);
    }
    if (header.directory != aligned(end) || blocks != sums_.size()) {
        refuse("the directory does not fit the sections");
    }
}

const Section* SnapshotFileReader::find(SectionKind kind, std::uint32_t index) const noexcept {
    for (const Section& section : sections_) {
        if (section.kind == kind && section.index == index) return &section;
    }
    return nullptr;
}

const Section& SnapshotFileReader::require(SectionKind kind, std::uint64_t bytes,
                                           std::uint32_t index) const {
    const Section* section = find(kind, index);
    if (section == nullptr) refuse("section " + name_of(kind) + " is missing");
    if (section->bytes != bytes) {
        refuse("section " + name_of(kind) + " has " + std::to_string(section->bytes) +
               " bytes, expected " + std::to_string(bytes));
    }
    return *section;
}

void SnapshotFileReader::want(const Section& section, void* out, const Check* check) {
    auto* to = static_cast<std::byte*>(out);
    std::size_t sum = first_sums_[static_cast<std::size_t>(&section - sections_.data())];
    for (std::uint64_t done = 0; done < section.bytes; done += section.block) {
        const auto bytes = static_cast<std::size_t>(std::min(section.block, section.bytes - done));
        wanted_.push_back({&section, section.offset + done, bytes,
                           to == nullptr ? nullptr : to + done, sums_[sum++], check});
    }
}

void SnapshotFileReader::read() {
    const std::size_t count = wanted_.size();
    const std::size_t parts = std::min(count, parts_for(count * default_block));
    run_parts(parts, [&](std::size_t part) {
        for (std::size_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
            read_block(wanted_[i]);
        }
    });
    wanted_.clear();
}

void SnapshotFileReader::read_block(const Block& block) const {
    thread_local std::vector<std::byte> scratch;
    std::byte* out = block.out;
    if (out == nullptr) {
        scratch.resize(default_block);
        out = scratch.data();
    }
    read_bytes(out, block.bytes, block.offset);
    const std::span<const std::byte> data(out, block.bytes);
    if (sum_at(data, generation_, block.offset) != block.sum) {
        refuse("section " + name_of(block.section->kind) + ": bytes " +
               std::to_string(block.offset) + " to " + std::to_string(block.offset + block.bytes) +
               " differ from their checksum");
    }
    if (block.check != nullptr) (*block.check)(data);
}

void SnapshotFileReader::read_bytes(void* out, std::size_t bytes, std::uint64_t offset) const {
    auto* to = static_cast<std::byte*>(out);
    while (bytes > 0) {
        const ssize_t done = ::pread(file_, to, bytes, static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) refuse(std::strerror(errno));
        if (done == 0) refuse("the file ends at byte " + std::to_string(offset));
        to += done;
        bytes -= static_cast<std::size_t>(done);
        offset += static_cast<std::uint64_t>(done);
    }
}

}  // namespace flashbulb
