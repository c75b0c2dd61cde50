// The laws of decay and bonus, one row at a time and free of branches, so that the compiler makes
// vector loops of them. Every operation is a correctly rounded float64 one and contraction is off:
// the same bits come out at every SIMD level, in a scalar call and on every architecture.

static inline double larger(double a, double b) noexcept { return a > b ? a : b; }
static inline double smaller(double a, double b) noexcept { return a < b ? a : b; }

// exp(x) for x <= 0; within 2 ulp, 0 below -700 (where exp is under 1e-304).
// Cody and Waite: x = k ln2 + r with |r| <= ln2/2, exp(r) by its Taylor polynomial to r^13, whose
// remainder is below 5e-18. The library's exp is not used: its last bit varies with the machine.
static inline double exp_of_negative(double x) noexcept {
    constexpr double log2_e = 1.4426950408889634074;
    // ln2_high ends in zero bits, so that k * ln2_high is exact.
    constexpr double ln2_high = 6.93147180369123816490e-01;
    constexpr double ln2_low = 1.90821492927058770002e-10;
    constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
    const double clamped = larger(x, -700.0);
    const double shifted = clamped * log2_e + round_magic;
    const double k = shifted - round_magic;
    const double r = (clamped - k * ln2_high) - k * ln2_low;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    const double e = (p * r) * r + r + 1.0;
    const auto exponent = __builtin_bit_cast(std::uint64_t, shifted) << 52U;
    const double scaled =
        __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, e) + exponent);
    return x < -700.0 ? 0.0 : scaled;
}

// An age below zero (a clock that stepped back, a time in the future) counts as zero.
static inline double age_seconds(double now, double then) noexcept {
    return larger(now - then, 0.0);
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
    const double factor = exp_of_negative(-rate_per_second * age_seconds(now, anchor_time));
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
