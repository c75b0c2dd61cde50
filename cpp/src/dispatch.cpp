#include "dispatch.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "flashbulb/simd_level.hpp"

namespace flashbulb {

namespace {

struct Level {
    SimdLevel level;
    std::string_view name;
    bool (*runs_here)();
    const kernels::KernelTable& (*table)() noexcept;
};

#if defined(__x86_64__)
// Not by __builtin_cpu_supports, which knows these names only in newer compilers.
[[maybe_unused]] bool has_avx_vnni() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1U << 4U)) != 0;
}

[[maybe_unused]] bool has_f16c() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1U << 29U)) != 0;
}

[[maybe_unused]] bool has_v3() {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && has_f16c();
}

[[maybe_unused]] bool has_v4() {
    return has_v3() && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0;
}

[[maybe_unused]] bool has_v4_vnni() {
    return has_v4() && __builtin_cpu_supports("avx512vnni") != 0;
}

// Tiles and their int8 products; whether the system lets us use them is another question.
[[maybe_unused]] bool has_amx() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1U << 24U)) != 0 &&
           (edx & (1U << 25U)) != 0;
}
#endif

std::string_view tiles_choice() {
    const char* const given = std::getenv("FLASHBULB_AMX");
    return given == nullptr ? "" : given;
}

#if defined(__x86_64__) && defined(__linux__)
// Linux saves the tiles of a process only after it has asked for them.
[[maybe_unused]] bool tiles_permitted() {
    constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long tile_data = 18;
    static const bool permitted =
        tiles_choice() != "0" && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
    return permitted;
}
#else
[[maybe_unused]] bool tiles_permitted() { return false; }
#endif

#ifdef FLASHBULB_WITH_LEVEL_dotprod
bool has_dotprod() {
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
    return true;  // Apple's processors have had them since the first Macs with one
#endif
}
#endif

// Lowest first. A level that was not compiled in is absent.
constexpr Level levels[] = {
    {SimdLevel::base, "base", [] { return true; }, kernels::table_base},
#ifdef FLASHBULB_WITH_LEVEL_v3
    {SimdLevel::v3, "v3", has_v3, kernels::table_v3},
#endif
#ifdef FLASHBULB_WITH_LEVEL_v3_vnni
    {SimdLevel::v3_vnni, "v3_vnni", [] { return has_v3() && has_avx_vnni(); },
     kernels::table_v3_vnni},
#endif
#ifdef FLASHBULB_WITH_LEVEL_v4
    {SimdLevel::v4, "v4", has_v4, kernels::table_v4},
#endif
#ifdef FLASHBULB_WITH_LEVEL_v4_vnni
    {SimdLevel::v4_vnni, "v4_vnni", has_v4_vnni, kernels::table_v4_vnni},
#endif
#ifdef FLASHBULB_WITH_LEVEL_v4_amx
    {SimdLevel::v4_amx, "v4_amx", [] { return has_v4_vnni() && has_amx() && tiles_permitted(); },
     kernels::table_v4_amx},
#endif
#ifdef FLASHBULB_WITH_LEVEL_dotprod
    {SimdLevel::dotprod, "dotprod", has_dotprod, kernels::table_dotprod},
#endif
};

constexpr std::string_view all_names[] = {"base",    "v3",     "v3_vnni", "v4",
                                          "v4_vnni", "v4_amx", "dotprod"};

std::string supported_names() {
    std::string names;
    for (const Level& level : levels) {
        if (!level.runs_here()) continue;
        if (!names.empty()) names += ", ";
        names += level.name;
    }
    return names;
}

const Level& find(std::string_view name) {
    for (const Level& level : levels) {
        if (level.name == name && level.runs_here()) return level;
    }
    for (const std::string_view known : all_names) {
        if (known == name) {
            throw std::invalid_argument("SIMD level '" + std::string(name) +
                                        "' cannot run here; supported: " + supported_names());
        }
    }
    throw std::invalid_argument("unknown SIMD level '" + std::string(name) +
                                "'; supported here: " + supported_names());
}

const Level& initial() {
    if (const std::string_view tiles = tiles_choice();
        !tiles.empty() && tiles != "0" && tiles != "1") {
        throw std::invalid_argument(
            "FLASHBULB_AMX must be 0 (no matrix tiles) or 1 (where they can be used), got '" +
            std::string(tiles) + "'");
    }
    if (const char* wanted = std::getenv("FLASHBULB_SIMD_LEVEL");
        wanted != nullptr && *wanted != '\0') {
        return find(wanted);
    }
    const Level* highest = &levels[0];
    for (const Level& level : levels) {
        if (level.runs_here()) highest = &level;
    }
    return *highest;
}

std::atomic<const Level*>& active() {
    static std::atomic<const Level*> chosen{&initial()};
    return chosen;
}

}  // namespace

const kernels::KernelTable& active_kernels() {
    return active().load(std::memory_order_acquire)->table();
}

std::string_view to_string(SimdLevel level) noexcept { return all_names[static_cast<int>(level)]; }

std::vector<SimdLevel> supported_simd_levels() {
    std::vector<SimdLevel> supported;
    for (const Level& level : levels) {
        if (level.runs_here()) supported.push_back(level.level);
    }
    return supported;
}

SimdLevel active_simd_level() { return active().load(std::memory_order_acquire)->level; }

void set_simd_level(std::string_view name) {
    active().store(&find(name), std::memory_order_release);
}

}  // namespace flashbulb
