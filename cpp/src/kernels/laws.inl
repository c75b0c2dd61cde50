// The laws of decay and bonus, one row at a time and free of branches, so that the compiler makes
// vector loops of them. Every operation is a correctly rounded float64 one and contraction is off:
// the same bits come out at every SIMD level, in a scalar call and on every architecture.

static inline double larger(double a, double b) noexcept { return a > b ? a : b; }
static inline double smaller(double a, double b) noexcept { return a < b ? a : b; }

// exp(x) for x <= 0; within 2 ulp, and never below exp(-703), 5e-306: what decays counts as 0
// there. Cody and Waite: x = k ln2 + r with |r| <= ln2/2, exp(r) = 1 + r + r^2 q(r), where q
// interpolates in the ten Chebyshev nodes of that interval: within 1.6e-17 of exp(r). The library's
// exp is not used: its last bit varies with the machine.
static inline double exp_of_negative(double x) noexcept {
    constexpr double log2_e = 1.4426950408889634074;
    // ln2_high ends in zero bits, so that k * ln2_high is exact.
    constexpr double ln2_high = 6.93147180369123816490e-01;
    constexpr double ln2_low = 1.90821492927058770002e-10;
    constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
    const double clamped = larger(x, -703.0);
    const double shifted = clamped * log2_e + round_magic;
    const double k = shifted - round_magic;
    const double r = (clamped - k * ln2_high) - k * ln2_low;
    double q = 2.5100375832561234e-08;
    q = q * r + 2.7620075879983367e-07;
    q = q * r + 2.7557268480310024e-06;
    q = q * r + 2.4801521322368692e-05;
    q = q * r + 0.00019841269863040545;
    q = q * r + 0.0013888888917196719;
    q = q * r + 0.008333333333330065;
    q = q * r + 0.041666666666624164;
    q = q * r + 0.16666666666666669;
    q = q * r + 0.5000000000000001;
    const double e = (q * r) * r + r + 1.0;
    const auto exponent = __builtin_bit_cast(std::uint64_t, shifted) << 52U;
    return __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, e) + exponent);
}

// An age below zero (a clock that stepped back, a time in the future) counts as zero.
static inline double age_seconds(double now, double then) noexcept {
    return larger(now - then, 0.0);
}

// The same, negated: what an exp of decay takes.
static inline double negative_age_seconds(double now, double then) noexcept {
    return smaller(then - now, 0.0);
}

// What is left of a strength. Under 1e-305 it counts as 0: a memory that is re-anchored again and
// again would otherwise pass through the subnormal numbers, whose arithmetic is slow.
static inline double faded(double strength, double factor) noexcept {
    const double left = strength * factor;
    return left < 1e-305 ? 0.0 : left;
}

template <bool Asymptotic>
static inline double decayed(double anchor, double anchor_time, double rate_per_second,
                             double floor, double now) noexcept {
    const double factor = exp_of_negative(rate_per_second * negative_age_seconds(now, anchor_time));
    // Rounding must not lift the sum above the anchor.
    return Asymptotic ? smaller(floor + faded(anchor - floor, factor), anchor)
                      : larger(faded(anchor, factor), floor);
}

// Zeigarnik: an open task is lifted, a completed one lowered, down to its floor.
static inline double effective(double vividness, double task_shift, double floor) noexcept {
    return smaller(larger(vividness + task_shift, floor), 1.0);
}

static inline double ramped(const Ramp& ramp, double similarity) noexcept {
    return smaller(larger((similarity - ramp.start) * ramp.slope, 0.0), 1.0);
}

// The score as a function of the similarity: it never falls when the similarity rises.
static inline double fused(double similarity, double vividness_bonus, double recency_bonus,
                           const Ramp& vividness_ramp, const Ramp& recency_ramp) noexcept {
    return (similarity + ramped(vividness_ramp, similarity) * vividness_bonus) +
           ramped(recency_ramp, similarity) * recency_bonus;
}
