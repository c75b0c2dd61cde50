// Quantised copies of rows: rotation, coding, and products with queries.
//
// A rotated row x is coded as u = 16 * high + low in 0 .. 255: x ~ scale * (u - 128), or by its
// high half alone x ~ scale * (16 * high - 120.5), the middle of what the half stands for. A
// rotated query is coded as q ~ scale * (254 * high + low) in two int8 digits, or by its high digit
// alone.

static inline float rounded_up(double value) noexcept {
    const auto nearest = static_cast<float>(value);
    if (static_cast<double>(nearest) >= value) return nearest;
    // The next float above a positive one is the next integer of its bits.
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, nearest) + 1U);
}

// Hadamard transform of `width` values in the form where every level looks the same: sums of the
// first and the second half, interleaved with their differences. Result in `a`.
static inline void hadamard(float* __restrict a, std::size_t width, float* __restrict b) noexcept {
    const std::size_t half = width / 2;
    float* from = a;
    float* to = b;
    for (std::size_t level = 1; level < width; level *= 2) {
        const float* __restrict source = from;
        float* __restrict target = to;
        for (std::size_t i = 0; i < half; ++i) {
            const float sum = source[i] + source[half + i];
            const float difference = source[i] - source[half + i];
            target[2 * i] = sum;
            target[2 * i + 1] = difference;
        }
        float* const swapped = from;
        from = to;
        to = swapped;
    }
    if (from != a) {
        for (std::size_t i = 0; i < width; ++i) a[i] = from[i];
    }
}

static void rotate(const float* values, std::size_t dim, std::size_t width, std::size_t stages,
                   const float* factors, float* scratch, float* out) noexcept {
    for (std::size_t i = 0; i < dim; ++i) out[i] = values[i];
    for (std::size_t stage = 0; stage < stages; ++stage) {
        float* part = stage % 2 == 0 ? out : out + (dim - width);
        const float* factor = factors + stage * width;
        for (std::size_t i = 0; i < width; ++i) part[i] *= factor[i];
        hadamard(part, width, scratch);
    }
}

static inline float largest_magnitude(const float* values, std::size_t dim) noexcept {
    float largest = 0.0F;
    float lanes[16] = {};
    std::size_t place = 0;
    for (; place + 16 <= dim; place += 16) {
        for (std::size_t lane = 0; lane < 16; ++lane) {
            lanes[lane] = larger(__builtin_fabsf(values[place + lane]), lanes[lane]);
        }
    }
    for (; place < dim; ++place) largest = larger(__builtin_fabsf(values[place]), largest);
    for (const float value : lanes) largest = larger(value, largest);
    return largest;
}

// Adds the squares of values - step * decoded to eight sums.
static inline void add_missed(const float* __restrict values, const float* __restrict decoded,
                              double step, double* __restrict sums) noexcept {
    double lanes[8];
    for (int lane = 0; lane < 8; ++lane) lanes[lane] = sums[lane];
    for (int i = 0; i < 128; i += 8) {
        for (int lane = 0; lane < 8; ++lane) {
            const double missed = static_cast<double>(values[i + lane]) -
                                  step * static_cast<double>(decoded[i + lane]);
            lanes[lane] += missed * missed;
        }
    }
    for (int lane = 0; lane < 8; ++lane) sums[lane] = lanes[lane];
}

static void encode(const float* rotated, std::size_t dim, std::size_t stride, std::uint8_t* high,
                   std::uint8_t* low, float* scale, float* residual4, float* residual8) noexcept {
    const float largest = largest_magnitude(rotated, dim);
    const float step = largest / 127.0F;
    // A step that is subnormal would have no exact inverse; such a row is coded as zeros.
    const bool codable = step > 1e-30F;
    const float inverse = codable ? 1.0F / step : 0.0F;
    const double wide_step = codable ? static_cast<double>(step) : 0.0;
    constexpr float round_magic = 12582912.0F;  // 1.5 * 2^23
    double errors4[8] = {};
    double errors8[8] = {};
    for (std::size_t chunk = 0; chunk < 2 * stride; chunk += 128) {
        std::uint8_t codes[128];
        float values[128];
        float decoded8[128];  // in steps
        float decoded4[128];
        const std::size_t count = dim - chunk < 128 ? dim - chunk : 128;
        for (std::size_t i = 0; i < count; ++i) values[i] = rotated[chunk + i];
        for (std::size_t i = count; i < 128; ++i) values[i] = 0.0F;
        for (std::size_t i = 0; i < 128; ++i) {
            // |row / step| is at most 127 and a rounding error: it rounds to at most 127.
            const float code = (values[i] * inverse + round_magic) - round_magic;
            codes[i] = static_cast<std::uint8_t>(static_cast<int>(code) + 128);
            decoded8[i] = code;
            // 15/32 less makes rounding down of rounding to nearest.
            const float high_half =
                ((code + 128.0F) * 0.0625F - 0.46875F + round_magic) - round_magic;
            decoded4[i] = 16.0F * high_half - 120.5F;
        }
        // What pads the last chunk is no value: it misses nothing.
        for (std::size_t i = count; i < 128; ++i) decoded4[i] = 0.0F;
        add_missed(values, decoded8, wide_step, errors8);
        add_missed(values, decoded4, wide_step, errors4);
        for (std::size_t j = 0; j < 64; ++j) {
            const unsigned first = codes[j];
            const unsigned second = codes[64 + j];
            high[chunk / 2 + j] = static_cast<std::uint8_t>((second & 0xF0U) | (first >> 4U));
            low[chunk / 2 + j] = static_cast<std::uint8_t>((second << 4U) | (first & 0x0FU));
        }
    }
    *scale = codable ? step : 0.0F;
    // The factor covers the rounding of the sums and of the roots.
    *residual4 = rounded_up(__builtin_sqrt(sum_of_lanes(errors4)) * (1.0 + 1e-9));
    *residual8 = rounded_up(__builtin_sqrt(sum_of_lanes(errors8)) * (1.0 + 1e-9));
}

// Adds the squares of `count` values, a multiple of eight, to eight sums.
static inline void add_squares(const double* values, std::size_t count, double* sums) noexcept {
    for (std::size_t lane = 0; lane < all_lanes; lane += Part::lanes) {
        Part sum = Part::load(sums + lane);
        for (std::size_t i = lane; i < count; i += all_lanes) {
            const Part value = Part::load(values + i);
            sum = sum + value * value;
        }
        sum.store(sums + lane);
    }
}

// Digits of a rotated query, and the squares of what the first and what both of them miss.
static void code_query(const float* rotated, std::size_t dim, std::int8_t* high, std::int8_t* low,
                       QueryCodes* out) noexcept {
    float largest = largest_magnitude(rotated, dim);
    largest = largest > 1e-30F ? largest : 1e-30F;
    // 254 steps of the second digit make one of the first.
    const float low_step = largest / (127.0F * 254.0F);
    const double step = 254.0 * static_cast<double>(low_step);
    const double inverse = 1.0 / step;
    const double low_inverse = 1.0 / static_cast<double>(low_step);
    constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
    double missed4[8] = {};
    double missed8[8] = {};
    int high_sum = 0;
    int low_sum = 0;
    constexpr std::size_t together = 64;
    for (std::size_t chunk = 0; chunk < dim; chunk += together) {
        const std::size_t count = dim - chunk < together ? dim - chunk : together;
        double values[together] = {};
        for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(rotated[chunk + i]);
        double rest[together];
        double left[together];
        int first_digits[together];
        int second_digits[together];
        for (std::size_t i = 0; i < together; ++i) {
            const double first =
                smaller(larger((values[i] * inverse + round_magic) - round_magic, -127.0), 127.0);
            rest[i] = values[i] - step * first;
            const double second =
                smaller(larger((rest[i] * low_inverse + round_magic) - round_magic, -127.0), 127.0);
            left[i] = rest[i] - static_cast<double>(low_step) * second;
            first_digits[i] = static_cast<int>(first);
            second_digits[i] = static_cast<int>(second);
        }
        add_squares(rest, together, missed4);
        add_squares(left, together, missed8);
        for (std::size_t i = 0; i < together; ++i) {
            high_sum += first_digits[i];
            low_sum += second_digits[i];
        }
        for (std::size_t i = 0; i < count; ++i) {
            high[chunk + i] = static_cast<std::int8_t>(first_digits[i]);
            low[chunk + i] = static_cast<std::int8_t>(second_digits[i]);
        }
    }
    *out = {low_step, high_sum, low_sum, sum_of_lanes(missed4), sum_of_lanes(missed8)};
}

// How far ahead of the codes in work the next ones are asked for, in bytes; past the end of the
// rows that is a wasted hint, never a fault.
static constexpr std::size_t codes_ahead = 8192;

// Products of codes. `Codes` is the widest vector of bytes, `add_products` adds those of unsigned
// values of at most 15 and signed bytes in groups of four, `store_sums` the sums of `together`
// accumulators.

#if defined(__AVX512F__) && defined(__AVX512BW__)

using Codes = __m512i;
using CodeSums = __m512i;
static constexpr std::size_t codes_bytes = 64;
static constexpr std::size_t rows_together = 16;

static inline Codes load_codes(const void* p) noexcept { return _mm512_load_si512(p); }
static inline CodeSums no_sums() noexcept { return _mm512_setzero_si512(); }
static inline Codes first_half(Codes c) noexcept {
    return _mm512_and_si512(c, _mm512_set1_epi8(15));
}
static inline Codes second_half(Codes c) noexcept {
    return _mm512_and_si512(_mm512_srli_epi16(c, 4), _mm512_set1_epi8(15));
}
static inline CodeSums add_products(CodeSums sums, Codes unsigned_codes, Codes digits) noexcept {
#if defined(__AVX512VNNI__)
    return _mm512_dpbusd_epi32(sums, unsigned_codes, digits);
#else
    const __m512i pairs = _mm512_maddubs_epi16(unsigned_codes, digits);
    return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}
static inline CodeSums sixteen_times_plus(CodeSums a, CodeSums b) noexcept {
    return _mm512_add_epi32(_mm512_slli_epi32(a, 4), b);
}
static inline int sum_of(CodeSums sums) noexcept { return _mm512_reduce_add_epi32(sums); }
static inline void store_sums(const CodeSums* sums, int* out) noexcept {
    // Four rounds, each of which adds neighbours and halves the number of vectors.
    __m512i pairs[8];
    for (int i = 0; i < 8; ++i) {
        pairs[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2 * i], sums[2 * i + 1]),
                                    _mm512_unpackhi_epi32(sums[2 * i], sums[2 * i + 1]));
    }
    __m512i fours[4];  // each 128-bit lane: one partial sum of four rows
    for (int i = 0; i < 4; ++i) {
        fours[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                                    _mm512_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
    }
    __m512i halves[2];
    for (int i = 0; i < 2; ++i) {
        halves[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(fours[2 * i], fours[2 * i + 1], 0x88),
                                     _mm512_shuffle_i32x4(fours[2 * i], fours[2 * i + 1], 0xDD));
    }
    const __m512i total = _mm512_add_epi32(_mm512_shuffle_i32x4(halves[0], halves[1], 0x88),
                                           _mm512_shuffle_i32x4(halves[0], halves[1], 0xDD));
    _mm512_storeu_si512(out, total);
}

#elif defined(__AVX2__)

using Codes = __m256i;
using CodeSums = __m256i;
static constexpr std::size_t codes_bytes = 32;
static constexpr std::size_t rows_together = 8;

static inline Codes load_codes(const void* p) noexcept {
    return _mm256_load_si256(static_cast<const __m256i*>(p));
}
static inline CodeSums no_sums() noexcept { return _mm256_setzero_si256(); }
static inline Codes first_half(Codes c) noexcept {
    return _mm256_and_si256(c, _mm256_set1_epi8(15));
}
static inline Codes second_half(Codes c) noexcept {
    return _mm256_and_si256(_mm256_srli_epi16(c, 4), _mm256_set1_epi8(15));
}
static inline CodeSums add_products(CodeSums sums, Codes unsigned_codes, Codes digits) noexcept {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sums, unsigned_codes, digits);
#else
    const __m256i pairs = _mm256_maddubs_epi16(unsigned_codes, digits);
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}
static inline CodeSums sixteen_times_plus(CodeSums a, CodeSums b) noexcept {
    return _mm256_add_epi32(_mm256_slli_epi32(a, 4), b);
}
static inline int sum_of(CodeSums sums) noexcept {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return _mm_cvtsi128_si32(four);
}
static inline void store_sums(const CodeSums* sums, int* out) noexcept {
    const auto four_of = [](const CodeSums* s) {
        return _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
    };
    const __m256i a = four_of(sums);
    const __m256i b = four_of(sums + 4);
    const __m256i total = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                           _mm256_permute2x128_si256(a, b, 0x31));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), total);
}

#elif defined(__ARM_NEON) && defined(__aarch64__)

using Codes = uint8x16_t;
using CodeSums = int32x4_t;
static constexpr std::size_t codes_bytes = 16;
static constexpr std::size_t rows_together = 4;

static inline Codes load_codes(const void* p) noexcept {
    return vld1q_u8(static_cast<const std::uint8_t*>(p));
}
static inline CodeSums no_sums() noexcept { return vdupq_n_s32(0); }
static inline Codes first_half(Codes c) noexcept { return vandq_u8(c, vdupq_n_u8(15)); }
static inline Codes second_half(Codes c) noexcept { return vshrq_n_u8(c, 4); }
static inline CodeSums add_products(CodeSums sums, Codes unsigned_codes, Codes digits) noexcept {
    const int8x16_t codes = vreinterpretq_s8_u8(unsigned_codes);
    const int8x16_t signed_digits = vreinterpretq_s8_u8(digits);
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sums, codes, signed_digits);
#else
    // Pairs of pairs, so that a sum holds four neighbours.
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(signed_digits)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(codes, signed_digits));
    return vaddq_s32(sums, vpaddq_s32(low, high));
#endif
}
static inline CodeSums sixteen_times_plus(CodeSums a, CodeSums b) noexcept {
    return vaddq_s32(vshlq_n_s32(a, 4), b);
}
static inline int sum_of(CodeSums sums) noexcept { return vaddvq_s32(sums); }
static inline void store_sums(const CodeSums* sums, int* out) noexcept {
    vst1q_s32(out, vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3])));
}

#else

// Sixty-four bytes, whose loops the compiler turns into vector code.
struct Codes {
    std::int16_t values[64];
};
using CodeSums = int;
static constexpr std::size_t codes_bytes = 64;
static constexpr std::size_t rows_together = 1;

static inline Codes load_codes(const void* p) noexcept {
    Codes codes;
    for (int i = 0; i < 64; ++i) codes.values[i] = static_cast<const std::int8_t*>(p)[i];
    return codes;
}
static inline CodeSums no_sums() noexcept { return 0; }
static inline Codes first_half(const Codes& c) noexcept {
    Codes half;
    for (int i = 0; i < 64; ++i) half.values[i] = static_cast<std::int16_t>(c.values[i] & 15);
    return half;
}
static inline Codes second_half(const Codes& c) noexcept {
    Codes half;
    for (int i = 0; i < 64; ++i) {
        half.values[i] = static_cast<std::int16_t>((c.values[i] >> 4) & 15);
    }
    return half;
}
static inline CodeSums add_products(CodeSums sums, const Codes& a, const Codes& b) noexcept {
    for (int i = 0; i < 64; ++i) sums += a.values[i] * b.values[i];
    return sums;
}
static inline CodeSums sixteen_times_plus(CodeSums a, CodeSums b) noexcept { return 16 * a + b; }
static inline int sum_of(CodeSums sums) noexcept { return sums; }
static inline void store_sums(const CodeSums* sums, int* out) noexcept { *out = *sums; }

#endif

// Digits lie in the order of the values: those of the first halves of bytes i .. of a plane at
// 2 * (i - i % 64) + i % 64, those of the second halves 64 further.
static inline std::size_t digit_place(std::size_t i) noexcept { return 2 * i - i % 64; }

// Sums of products of the high planes of R rows with the high digits, of few enough rows that all
// of it stays in registers; with `Ahead`, the rows follow each other and the next ones are asked
// for.
template <int R, bool Ahead, class AddressOf>
static inline void int4_sums(AddressOf address_of, std::size_t stride, const CodedQuery& query,
                             CodeSums* out) noexcept {
    CodeSums sums[R];
    const std::uint8_t* rows[R];
    for (int r = 0; r < R; ++r) {
        sums[r] = no_sums();
        rows[r] = address_of(r);
    }
    for (std::size_t i = 0; i < stride; i += codes_bytes) {
        const Codes first = load_codes(query.high + digit_place(i));
        const Codes second = load_codes(query.high + digit_place(i) + 64);
        for (int r = 0; r < R; ++r) {
            if constexpr (Ahead) __builtin_prefetch(rows[r] + i + codes_ahead);
            const Codes codes = load_codes(rows[r] + i);
            sums[r] = add_products(sums[r], first_half(codes), first);
            sums[r] = add_products(sums[r], second_half(codes), second);
        }
    }
    for (int r = 0; r < R; ++r) out[r] = sums[r];
}

template <int R, bool Ahead, class AddressOf>
static inline void scan_int4_rows(AddressOf address_of, std::size_t stride, const CodedQuery& query,
                                  const float* __restrict scales, float* __restrict out) noexcept {
    constexpr int at_once = R < 4 ? R : 4;
    CodeSums sums[R];
    for (int r = 0; r < R; r += at_once) {
        int4_sums<at_once, Ahead>([&](int next) { return address_of(r + next); }, stride, query,
                                  sums + r);
    }
    int products[R];
    if constexpr (R == rows_together) {
        store_sums(sums, products);
    } else {
        for (int r = 0; r < R; ++r) products[r] = sum_of(sums[r]);
    }
    const int bias = query.high_bias4;
    const float scale = query.scale4;
    for (int r = 0; r < R; ++r) {
        // Twice 16 * high - 120.5, in integers: in float32 the difference would cancel.
        const int doubled = 32 * products[r] - bias;
        out[r] = static_cast<float>(doubled) * (scales[r] * scale);
    }
}

static void scan_int4(const std::uint8_t* high, std::size_t count, std::size_t stride,
                      const CodedQuery& query, const float* scales, float* out) noexcept {
    constexpr auto together = static_cast<int>(rows_together);
    std::size_t row = 0;
    const auto address_of = [&](int r) {
        return high + (row + static_cast<std::size_t>(r)) * stride;
    };
    for (; row + rows_together <= count; row += rows_together) {
        scan_int4_rows<together, true>(address_of, stride, query, scales + row, out + row);
    }
    for (; row < count; ++row) {
        scan_int4_rows<1, true>(address_of, stride, query, scales + row, out + row);
    }
}

static void gather_int4(const std::uint8_t* high, const std::uint16_t* places, std::size_t count,
                        std::size_t stride, const CodedQuery& query, const float* scales,
                        float* out) noexcept {
    constexpr auto together = static_cast<int>(rows_together);
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t* row = high + places[i] * stride;
        for (std::size_t line = 0; line < stride; line += 64) __builtin_prefetch(row + line);
    }
    std::size_t i = 0;
    const auto address_of = [&](int r) {
        return high + places[i + static_cast<std::size_t>(r)] * stride;
    };
    for (; i + rows_together <= count; i += rows_together) {
        scan_int4_rows<together, false>(address_of, stride, query, scales + i, out + i);
    }
    for (; i < count; ++i) scan_int4_rows<1, false>(address_of, stride, query, scales + i, out + i);
}

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)

// These instructions take whole codes: 16 * high + low of the first and second halves of bytes.
static inline Codes first_codes(Codes high, Codes low) noexcept {
#if defined(__AVX512VNNI__)
    // low where the mask has ones, else high
    return _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, _mm512_slli_epi16(high, 4), 0xCA);
#else
    const __m256i mask = _mm256_set1_epi8(15);
    return _mm256_or_si256(_mm256_and_si256(mask, low),
                           _mm256_andnot_si256(mask, _mm256_slli_epi16(high, 4)));
#endif
}
static inline Codes second_codes(Codes high, Codes low) noexcept {
#if defined(__AVX512VNNI__)
    return _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), _mm512_srli_epi16(low, 4), high, 0xCA);
#else
    const __m256i mask = _mm256_set1_epi8(15);
    return _mm256_or_si256(_mm256_and_si256(mask, _mm256_srli_epi16(low, 4)),
                           _mm256_andnot_si256(mask, high));
#endif
}

// Sums of products of R rows with the high digits, and with the low ones.
template <int R>
static inline void int8_sums(const std::uint8_t* high, const std::uint8_t* low, std::size_t stride,
                             const CodedQuery& query, CodeSums* high_out,
                             CodeSums* low_out) noexcept {
    CodeSums high_sums[R];
    CodeSums low_sums[R];
    for (int r = 0; r < R; ++r) high_sums[r] = low_sums[r] = no_sums();
    for (std::size_t i = 0; i < stride; i += codes_bytes) {
        const std::size_t place = digit_place(i);
        const Codes high_first = load_codes(query.high + place);
        const Codes high_second = load_codes(query.high + place + 64);
        const Codes low_first = load_codes(query.low + place);
        const Codes low_second = load_codes(query.low + place + 64);
        for (int r = 0; r < R; ++r) {
            const std::size_t offset = static_cast<std::size_t>(r) * stride + i;
            __builtin_prefetch(high + offset + codes_ahead);
            __builtin_prefetch(low + offset + codes_ahead);
            const Codes upper = load_codes(high + offset);
            const Codes lower = load_codes(low + offset);
            const Codes first = first_codes(upper, lower);
            const Codes second = second_codes(upper, lower);
            high_sums[r] = add_products(high_sums[r], first, high_first);
            low_sums[r] = add_products(low_sums[r], first, low_first);
            high_sums[r] = add_products(high_sums[r], second, high_second);
            low_sums[r] = add_products(low_sums[r], second, low_second);
        }
    }
    for (int r = 0; r < R; ++r) {
        high_out[r] = high_sums[r];
        low_out[r] = low_sums[r];
    }
}

// Products of R rows with both digits.
template <int R>
static inline void int8_products(const std::uint8_t* high, const std::uint8_t* low,
                                 std::size_t stride, const CodedQuery& query, int* high_products,
                                 int* low_products) noexcept {
    constexpr int at_once = R < 4 ? R : 4;
    CodeSums sums[2 * R];  // with the high digits, then with the low ones
    for (int r = 0; r < R; r += at_once) {
        const std::size_t offset = static_cast<std::size_t>(r) * stride;
        int8_sums<at_once>(high + offset, low + offset, stride, query, sums + r, sums + R + r);
    }
    if constexpr (R == rows_together) {
        store_sums(sums, high_products);
        store_sums(sums + R, low_products);
    } else {
        for (int r = 0; r < R; ++r) {
            high_products[r] = sum_of(sums[r]);
            low_products[r] = sum_of(sums[R + r]);
        }
    }
}

static constexpr std::size_t int8_rows_together = rows_together;

#else

template <int R>
static inline void int8_products(const std::uint8_t* high, const std::uint8_t* low,
                                 std::size_t stride, const CodedQuery& query, int* high_products,
                                 int* low_products) noexcept {
    CodeSums high_high[R];
    CodeSums low_high[R];
    CodeSums high_low[R];
    CodeSums low_low[R];
    for (int r = 0; r < R; ++r) {
        high_high[r] = low_high[r] = high_low[r] = low_low[r] = no_sums();
    }
    for (std::size_t i = 0; i < stride; i += codes_bytes) {
        const std::size_t place = digit_place(i);
        const Codes high_first = load_codes(query.high + place);
        const Codes high_second = load_codes(query.high + place + 64);
        const Codes low_first = load_codes(query.low + place);
        const Codes low_second = load_codes(query.low + place + 64);
        for (int r = 0; r < R; ++r) {
            const std::size_t offset = static_cast<std::size_t>(r) * stride + i;
            __builtin_prefetch(high + offset + codes_ahead);
            __builtin_prefetch(low + offset + codes_ahead);
            const Codes upper = load_codes(high + offset);
            const Codes lower = load_codes(low + offset);
            high_high[r] = add_products(high_high[r], first_half(upper), high_first);
            low_high[r] = add_products(low_high[r], first_half(upper), low_first);
            high_low[r] = add_products(high_low[r], first_half(lower), high_first);
            low_low[r] = add_products(low_low[r], first_half(lower), low_first);
            high_high[r] = add_products(high_high[r], second_half(upper), high_second);
            low_high[r] = add_products(low_high[r], second_half(upper), low_second);
            high_low[r] = add_products(high_low[r], second_half(lower), high_second);
            low_low[r] = add_products(low_low[r], second_half(lower), low_second);
        }
    }
    for (int r = 0; r < R; ++r) {
        high_products[r] = sum_of(sixteen_times_plus(high_high[r], high_low[r]));
        low_products[r] = sum_of(sixteen_times_plus(low_high[r], low_low[r]));
    }
}

static constexpr std::size_t int8_rows_together = 4;

#endif

template <int R>
static inline void scan_int8_rows(const std::uint8_t* high, const std::uint8_t* low,
                                  std::size_t stride, const CodedQuery& query,
                                  const float* __restrict scales, float* __restrict out) noexcept {
    int high_products[R];
    int low_products[R];
    int8_products<R>(high, low, stride, query, high_products, low_products);
    const int high_bias = query.high_bias8;
    const int low_bias = query.low_bias8;
    const float scale = query.scale8;
    for (int r = 0; r < R; ++r) {
        const auto h = static_cast<float>(high_products[r] - high_bias);
        const auto l = static_cast<float>(low_products[r] - low_bias);
        out[r] = scales[r] * (scale * (254.0F * h + l));
    }
}

static void scan_int8(const std::uint8_t* high, const std::uint8_t* low, std::size_t count,
                      std::size_t stride, const CodedQuery& query, const float* scales,
                      float* out) noexcept {
    constexpr auto together = static_cast<int>(int8_rows_together);
    std::size_t row = 0;
    for (; row + int8_rows_together <= count; row += int8_rows_together) {
        scan_int8_rows<together>(high + row * stride, low + row * stride, stride, query,
                                 scales + row, out + row);
    }
    for (; row < count; ++row) {
        scan_int8_rows<1>(high + row * stride, low + row * stride, stride, query, scales + row,
                          out + row);
    }
}
