// int8 copies of rows. A row x is coded as x ~ scale * codes with |x - scale * codes| <= residual;
// a query as q ~ scale * (254 * high + low), in two int8 parts, so that the rows' residuals alone
// decide how tight a bound is.

static inline float rounded_up(double value) noexcept {
    const auto nearest = static_cast<float>(value);
    if (static_cast<double>(nearest) >= value) return nearest;
    // The next float above a positive one is the next integer of its bits.
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, nearest) + 1U);
}

static void encode_int8(const float* row, std::size_t dim, std::size_t stride, std::int8_t* codes,
                        float* scale, float* residual) noexcept {
    float largest = 0.0F;
    for (std::size_t i = 0; i < dim; ++i) {
        const float magnitude = row[i] < 0.0F ? -row[i] : row[i];
        largest = magnitude > largest ? magnitude : largest;
    }
    const float step = largest / 127.0F;
    // A step that is subnormal would have no exact inverse; such a row is coded as zeros.
    const float inverse = step > 1e-30F ? 1.0F / step : 0.0F;
    constexpr float round_magic = 12582912.0F;  // 1.5 * 2^23
    double errors[8] = {};
    std::size_t i = 0;
    const auto encode_one = [&](std::size_t place, std::size_t lane) {
        // |row / step| is at most 127 and a rounding error: it rounds to at most 127.
        const float code = (row[place] * inverse + round_magic) - round_magic;
        codes[place] = static_cast<std::int8_t>(code);
        const double missed =
            static_cast<double>(row[place]) - static_cast<double>(step) * static_cast<double>(code);
        errors[lane] += missed * missed;
    };
    for (; i + 8 <= dim; i += 8) {
        for (std::size_t lane = 0; lane < 8; ++lane) encode_one(i + lane, lane);
    }
    for (std::size_t lane = 0; i < dim; ++i, ++lane) encode_one(i, lane);
    const double error = sum_of_lanes(errors);
    for (i = dim; i < stride; ++i) codes[i] = 0;
    *scale = step;
    // The factor covers the rounding of the sum and of the root.
    *residual = rounded_up(__builtin_sqrt(error) * (1.0 + 1e-9));
}

static inline float int8_product(float scale, const Int8Query& query, int high, int low) noexcept {
    return scale * (query.scale * (254.0F * static_cast<float>(high) + static_cast<float>(low)));
}

// How far ahead of the codes in work the next ones are asked for, in bytes; past the end of the
// rows that is a wasted hint, never a fault.
static constexpr std::size_t int8_ahead = 8192;

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)

template <int R>
static inline void scan_int8_rows(const std::int8_t* codes, std::size_t stride,
                                  const Int8Query& query, const float* scales,
                                  float* out) noexcept {
    const __m512i bias = _mm512_set1_epi8(static_cast<char>(0x80));
    __m512i high[R];
    __m512i low[R];
    for (int r = 0; r < R; ++r) high[r] = low[r] = _mm512_setzero_si512();
    for (std::size_t i = 0; i < stride; i += 64) {
        const __m512i q_high = _mm512_load_si512(query.high + i);
        const __m512i q_low = _mm512_load_si512(query.low + i);
        for (int r = 0; r < R; ++r) {
            const std::int8_t* address = codes + static_cast<std::size_t>(r) * stride + i;
            __builtin_prefetch(address + int8_ahead);
            const __m512i c = _mm512_xor_si512(bias, _mm512_load_si512(address));
            high[r] = _mm512_dpbusd_epi32(high[r], c, q_high);
            low[r] = _mm512_dpbusd_epi32(low[r], c, q_low);
        }
    }
    for (int r = 0; r < R; ++r) {
        const int h = _mm512_reduce_add_epi32(high[r]) - query.high_bias;
        const int l = _mm512_reduce_add_epi32(low[r]) - query.low_bias;
        out[r] = int8_product(scales[r], query, h, l);
    }
}

static constexpr std::size_t int8_rows_together = 8;

#elif defined(__AVXVNNI__)

template <int R>
static inline void scan_int8_rows(const std::int8_t* codes, std::size_t stride,
                                  const Int8Query& query, const float* scales,
                                  float* out) noexcept {
    const __m256i bias = _mm256_set1_epi8(static_cast<char>(0x80));
    __m256i high[R];
    __m256i low[R];
    for (int r = 0; r < R; ++r) high[r] = low[r] = _mm256_setzero_si256();
    for (std::size_t i = 0; i < stride; i += 32) {
        const __m256i q_high = _mm256_load_si256(reinterpret_cast<const __m256i*>(query.high + i));
        const __m256i q_low = _mm256_load_si256(reinterpret_cast<const __m256i*>(query.low + i));
        for (int r = 0; r < R; ++r) {
            const std::int8_t* address = codes + static_cast<std::size_t>(r) * stride + i;
            __builtin_prefetch(address + int8_ahead);
            const __m256i c = _mm256_xor_si256(
                bias, _mm256_load_si256(reinterpret_cast<const __m256i*>(address)));
            high[r] = _mm256_dpbusd_avx_epi32(high[r], c, q_high);
            low[r] = _mm256_dpbusd_avx_epi32(low[r], c, q_low);
        }
    }
    for (int r = 0; r < R; ++r) {
        const auto sum = [](__m256i value) {
            __m128i four =
                _mm_add_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
            four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
            four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
            return _mm_cvtsi128_si32(four);
        };
        const int h = sum(high[r]) - query.high_bias;
        const int l = sum(low[r]) - query.low_bias;
        out[r] = int8_product(scales[r], query, h, l);
    }
}

static constexpr std::size_t int8_rows_together = 4;

#else

// The compiler makes multiply-add instructions of int16 pairs of this.
template <int R>
static inline void scan_int8_rows(const std::int8_t* codes, std::size_t stride,
                                  const Int8Query& query, const float* scales,
                                  float* out) noexcept {
    for (int r = 0; r < R; ++r) {
        const std::int8_t* row = codes + static_cast<std::size_t>(r) * stride;
        std::int32_t high = 0;
        std::int32_t low = 0;
        for (std::size_t i = 0; i < stride; ++i) {
            high += static_cast<std::int16_t>(row[i]) * static_cast<std::int16_t>(query.high[i]);
            low += static_cast<std::int16_t>(row[i]) * static_cast<std::int16_t>(query.low[i]);
        }
        out[r] = int8_product(scales[r], query, high, low);
    }
}

static constexpr std::size_t int8_rows_together = 4;

#endif

static void scan_int8(const std::int8_t* codes, std::size_t count, std::size_t stride,
                      const Int8Query& query, const float* scales, float* out) noexcept {
    std::size_t row = 0;
    for (; row + int8_rows_together <= count; row += int8_rows_together) {
        scan_int8_rows<int8_rows_together>(codes + row * stride, stride, query, scales + row,
                                           out + row);
    }
    for (; row < count; ++row) {
        scan_int8_rows<1>(codes + row * stride, stride, query, scales + row, out + row);
    }
}
