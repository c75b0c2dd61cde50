// Any bytes as the file of a snapshot: it is read and searched, or refused with SnapshotError.
//
// As checksums would refuse almost everything, an input of even length gets right ones first.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "checksum.hpp"
#include "flashbulb/search.hpp"
#include "flashbulb/snapshot.hpp"
#include "flashbulb/thread_pool.hpp"
#include "snapshot_file.hpp"

namespace {

using namespace flashbulb;

constexpr std::size_t dim = 4;
constexpr std::uint64_t generation = 7;

void put(std::vector<std::byte>& file, std::size_t place, std::uint64_t value) {
    std::memcpy(file.data() + place, &value, sizeof value);
}

std::uint64_t get(const std::vector<std::byte>& file, std::size_t place) {
    std::uint64_t value = 0;
    std::memcpy(&value, file.data() + place, sizeof value);
    return value;
}

// The layout as snapshot_file.cpp has it.
void seal(std::vector<std::byte>& file) {
    constexpr std::size_t header = 64;
    if (file.size() < header) return;
    std::memcpy(file.data(), "FLBHsnap\1\0\0\0\4\3\2\1", 16);
    put(file, 16, generation);
    put(file, 24, file.size());
    const std::uint64_t directory = get(file, 32);
    const std::uint64_t sections = get(file, 40);
    const auto sum = [&](std::size_t begin, std::size_t bytes) {
        return checksum({file.data() + begin, bytes}, generation + begin * 0x9E3779B97F4A7C15U);
    };
    if (directory >= header && directory <= file.size() &&
        sections <= (file.size() - directory) / sizeof(Section)) {
        std::size_t place = directory + sections * sizeof(Section);
        for (std::uint64_t i = 0; i < sections; ++i) {
            Section section{};
            std::memcpy(&section, file.data() + directory + i * sizeof section, sizeof section);
            if (section.offset > directory || section.bytes > directory - section.offset) break;
            if (section.block == 0) break;
            for (std::uint64_t done = 0; done < section.bytes; done += section.block) {
                if (place + 8 > file.size()) break;
                put(file, place,
                    sum(section.offset + done, std::min(section.block, section.bytes - done)));
                place += 8;
            }
        }
        put(file, 48, sum(directory, file.size() - directory));
    }
    put(file, 56, checksum({file.data(), 56}, 1));
}

void use(const Snapshot& snapshot, const float* query) {
    for (std::size_t row = 0; row < snapshot.traces.rows(); ++row) {
        for (const TagId tag : snapshot.traces.tags(row)) (void)snapshot.tags.name(tag);
    }
    SearchRequest request;
    request.queries = query;
    request.query_count = 1;
    request.k = 5;
    request.now = 1.7e9;
    request.sketch = snapshot.sketch ? &*snapshot.sketch : nullptr;
    (void)search(snapshot.vectors.view(), snapshot.traces, request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const int memory = [] {
        set_threads(1);
        return ::memfd_create("snapshot", 0);
    }();
    static const std::string path = "/proc/self/fd/" + std::to_string(memory);
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    std::vector<std::byte> file(bytes, bytes + size);
    if (size % 2 == 0) seal(file);
    if (::ftruncate(memory, static_cast<off_t>(size)) != 0 ||
        ::pwrite(memory, file.data(), size, 0) != static_cast<ssize_t>(size)) {
        std::abort();
    }
    const std::vector<float> query(dim, 0.5F);
    for (const std::size_t map_from : {std::size_t{0}, ~std::size_t{0}}) {
        try {
            use(read_snapshot(path, generation, dim, Policy{}, map_from), query.data());
        } catch (const SnapshotError&) {
            return 0;
        }
    }
    return 0;
}
