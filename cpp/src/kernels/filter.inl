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

static void mark_rows(const std::uint8_t* __restrict flags, std::uint8_t any,
                      const std::uint16_t* __restrict vividness,
                      const std::uint16_t* __restrict recency, std::size_t count,
                      float vividness_scale, float recency_scale, float threshold,
                      std::uint64_t* __restrict words) noexcept {
    alignas(64) std::uint8_t marks[64];
    for (std::size_t begin = 0; begin < count; begin += 64) {
        const std::size_t rows = count - begin < 64 ? count - begin : 64;
        for (std::size_t i = rows; i < 64; ++i) marks[i] = 0;
        for (std::size_t i = 0; i < rows; ++i) {
            const float bonus = static_cast<float>(vividness[begin + i]) * vividness_scale +
                                static_cast<float>(recency[begin + i]) * recency_scale;
            const auto marked = static_cast<std::uint8_t>((flags[begin + i] & any) != 0);
            marks[i] = static_cast<std::uint8_t>(marked | (bonus >= threshold));
        }
        std::uint64_t word = 0;
        for (std::size_t i = 0; i < 64; i += 8) {
            std::uint64_t eight = 0;  // bytes that are 0 or 1; the product moves them side by side
            __builtin_memcpy(&eight, marks + i, sizeof eight);
            word |= (eight * 0x0102040810204080U) >> 56U << i;
        }
        words[begin / 64] |= word;
    }
}
