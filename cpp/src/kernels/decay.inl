// Vividness and bonus of a range of rows.

template <bool Asymptotic>
static void vividness_loop(const LawColumns& c, std::size_t begin, std::size_t count, double now,
                           double* __restrict out) noexcept {
    const double* __restrict anchor = c.vividness + begin;
    const double* __restrict time = c.vividness_time + begin;
    const double* __restrict rate = c.decay_rate + begin;
    const double* __restrict floor = c.floor + begin;
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = decayed<Asymptotic>(anchor[i], time[i], rate[i], floor[i], now);
    }
}

static void vividness(const LawColumns& columns, std::size_t begin, std::size_t count,
                      const LawParameters& p, double* out) noexcept {
    if (p.asymptotic) {
        vividness_loop<true>(columns, begin, count, p.now, out);
    } else {
        vividness_loop<false>(columns, begin, count, p.now, out);
    }
}

template <bool Asymptotic>
static void bonus_loop(const LawColumns& c, std::size_t begin, std::size_t count,
                       const LawParameters& p, double* __restrict vividness_bonus,
                       double* __restrict recency_bonus) noexcept {
    const double* __restrict anchor = c.vividness + begin;
    const double* __restrict time = c.vividness_time + begin;
    const double* __restrict rate = c.decay_rate + begin;
    const double* __restrict floor = c.floor + begin;
    const double* __restrict shift = c.task_shift + begin;
    const double* __restrict salience = c.bonus_salience + begin;
    const double* __restrict recency_time = c.recency_time + begin;
    const double now = p.now;
    const double vividness_weight = p.vividness_weight;
    const double recency_weight = p.recency_weight;
    const double recency_rate = p.recency_rate;
    for (std::size_t i = 0; i < count; ++i) {
        const double v = decayed<Asymptotic>(anchor[i], time[i], rate[i], floor[i], now);
        vividness_bonus[i] = vividness_weight * effective(v, shift[i], floor[i]) * salience[i];
        recency_bonus[i] =
            recency_weight *
            exp_of_negative(negative_age_seconds(now, recency_time[i]) * recency_rate);
    }
}

static void bonus(const LawColumns& columns, std::size_t begin, std::size_t count,
                  const LawParameters& p, double* vividness_bonus, double* recency_bonus) noexcept {
    if (p.asymptotic) {
        bonus_loop<true>(columns, begin, count, p, vividness_bonus, recency_bonus);
    } else {
        bonus_loop<false>(columns, begin, count, p, vividness_bonus, recency_bonus);
    }
}

// An upper bound of exp_of_negative(x) for x <= 0, at most 2e-6 of it (or 3e-9) too large, and
// never falling when x rises by more than rounding: half the steps, because it only selects. The
// Taylor polynomial to r^6 is within 2e-7 of exp(r).
static inline double exp_bound(double x) noexcept {
    constexpr double log2_e = 1.4426950408889634074;
    constexpr double ln2 = 6.93147180559945309417e-01;
    constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
    constexpr double slack = 1.0 + 1e-6;
    const double clamped = larger(x, -20.0);
    const double shifted = clamped * log2_e + round_magic;
    const double r = clamped - (shifted - round_magic) * ln2;
    double p = slack / 720.0;
    p = p * r + slack / 120.0;
    p = p * r + slack / 24.0;
    p = p * r + slack / 6.0;
    p = p * r + slack * 0.5;
    p = p * r + slack;
    p = p * r + slack;
    const auto exponent = __builtin_bit_cast(std::uint64_t, shifted) << 52U;
    return __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, p) + exponent);
}

// The code of a value in [0, 1 + 1e-5]: value * 65535 rounded up. A product that float64 rounded
// down onto a whole number is covered by the excess of bonus_bound_step.
static inline std::uint16_t bound_code(double value) noexcept {
    constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
    const double steps = smaller(value * 65535.0, 65535.0);
    const double shifted = steps + round_magic;
    const double up = shifted - round_magic < steps ? 1.0 : 0.0;
    return static_cast<std::uint16_t>(__builtin_bit_cast(std::uint64_t, shifted + up));
}

// The steps of bonus_loop with a larger exp; each of them, rounded, never falls when the exp rises.
template <bool Asymptotic>
static void bonus_bounds_loop(const LawColumns& c, std::size_t begin, std::size_t count,
                              const LawParameters& p, std::uint16_t* __restrict vividness_codes,
                              std::uint16_t* __restrict recency_codes) noexcept {
    const double* __restrict anchor = c.vividness + begin;
    const double* __restrict time = c.vividness_time + begin;
    const double* __restrict rate = c.decay_rate + begin;
    const double* __restrict floor = c.floor + begin;
    const double* __restrict shift = c.task_shift + begin;
    const double* __restrict salience = c.bonus_salience + begin;
    const double* __restrict recency_time = c.recency_time + begin;
    const double now = p.now;
    const double recency_rate = p.recency_rate;
    for (std::size_t i = 0; i < count; ++i) {
        const double factor = exp_bound(rate[i] * negative_age_seconds(now, time[i]));
        const double v = Asymptotic ? smaller(floor[i] + (anchor[i] - floor[i]) * factor, anchor[i])
                                    : larger(anchor[i] * factor, floor[i]);
        vividness_codes[i] = bound_code(effective(v, shift[i], floor[i]) * salience[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
        recency_codes[i] =
            bound_code(exp_bound(negative_age_seconds(now, recency_time[i]) * recency_rate));
    }
}

static void bonus_bounds(const LawColumns& columns, std::size_t begin, std::size_t count,
                         const LawParameters& p, std::uint16_t* vividness_codes,
                         std::uint16_t* recency_codes) noexcept {
    if (p.asymptotic) {
        bonus_bounds_loop<true>(columns, begin, count, p, vividness_codes, recency_codes);
    } else {
        bonus_bounds_loop<false>(columns, begin, count, p, vividness_codes, recency_codes);
    }
}
