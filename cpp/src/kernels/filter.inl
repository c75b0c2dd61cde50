// Which rows may enter a result: flags, times and the Bloom words of tags.

static void filter_flags(const std::uint8_t* __restrict flags, std::size_t count, std::uint8_t care,
                         std::uint8_t want, std::uint8_t* __restrict mask) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        mask[i] = static_cast<std::uint8_t>((flags[i] & care) == want);
    }
}

static void filter_times(const double* __restrict times, std::size_t count, double since,
                         double until, std::uint8_t* __restrict mask) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const auto inside = static_cast<std::uint8_t>((times[i] >= since) & (times[i] < until));
        mask[i] = static_cast<std::uint8_t>(mask[i] & inside);
    }
}

static void filter_blooms(const std::uint64_t* __restrict blooms, std::size_t count,
                          std::uint64_t wanted, std::uint8_t* __restrict mask) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const auto has_all = static_cast<std::uint8_t>((blooms[i] & wanted) == wanted);
        mask[i] = static_cast<std::uint8_t>(mask[i] & has_all);
    }
}
