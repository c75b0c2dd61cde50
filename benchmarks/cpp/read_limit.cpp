// The limit of every scan: reading memory and doing nothing else.
//
// One stream, 512 bytes a step, prefetched 8 KiB ahead. Of loops with one to eight streams, with
// and without prefetching at distances from 512 bytes to 128 KiB, none read more than 2 % faster
// where it was tried (40 MB to 1.5 GB, AVX-512); without prefetching it is 13 % slower. The pages
// of the buffer count as much: small ones (4 KiB) cost a third of the bandwidth.
//
// Used by the C++ benchmarks, and compiled by benchmarks/compare.py for its own use.

#include <cstddef>
#include <cstdint>

// NOLINTNEXTLINE(misc-use-internal-linkage): found by name
extern "C" std::uint64_t flashbulb_read(const void* data, std::size_t bytes);

#if defined(__x86_64__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
std::uint64_t
flashbulb_read(const void* data, std::size_t bytes) {
    typedef std::uint64_t Lanes __attribute__((vector_size(64), aligned(8), may_alias));
    constexpr std::size_t step = 8;
    constexpr std::size_t ahead = 8192;
    const auto* lanes = static_cast<const Lanes*>(data);
    Lanes found[step] = {};
    for (std::size_t i = 0; i + step <= bytes / sizeof(Lanes); i += step) {
        for (std::size_t j = 0; j < step; ++j) {
            // Beyond the end it is a hint that comes to nothing.
            __builtin_prefetch(reinterpret_cast<const char*>(lanes + i + j) + ahead);
            found[j] |= lanes[i + j];
        }
    }
    for (std::size_t j = 1; j < step; ++j) found[0] |= found[j];
    std::uint64_t result = 0;
    for (std::size_t j = 0; j < 8; ++j) result |= found[0][j];
    return result;
}
