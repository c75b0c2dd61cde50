// Stored rows as float32. Same bits at every level: a half is a float32 exactly, and the steps of
// an 8-bit code are rounded one by one.

// For processors without the instruction: moves exponent and mantissa to where float32 has them.
static inline float float_of_half(std::uint16_t half) noexcept {
    constexpr std::uint32_t exponents = 0x1FU << 23U;  // those of a half, moved
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
    std::uint32_t bits = static_cast<std::uint32_t>(half & 0x7FFFU) << 13U;
    const std::uint32_t exponent = bits & exponents;
    bits += (127U - 15U) << 23U;
    float value;
    if (exponent == 0) {  // zero or subnormal: as 2^-14 + fraction, less 2^-14
        bits += 1U << 23U;
        __builtin_memcpy(&value, &bits, sizeof value);
        value -= 0x1p-14F;
        __builtin_memcpy(&bits, &value, sizeof bits);
    } else if (exponent == exponents) {  // infinity or NaN
        bits += (128U - 16U) << 23U;
    }
    bits |= sign;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static void decode_float16(const std::uint16_t* codes, std::size_t count, float* out) noexcept {
    std::size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        const auto* source = reinterpret_cast<const __m256i*>(codes + i);
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256(source)));
    }
#elif defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        const auto* source = reinterpret_cast<const __m128i*>(codes + i);
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(source)));
    }
#elif defined(__ARM_NEON) && defined(__aarch64__)
    for (; i + 4 <= count; i += 4) {
        vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(codes + i))));
    }
#endif
    for (; i < count; ++i) out[i] = float_of_half(codes[i]);
}

static void decode_uint8(const std::uint8_t* codes, const float* minimum, const float* range,
                         std::size_t dim, float* out) noexcept {
    for (std::size_t i = 0; i < dim; ++i) {
        out[i] = minimum[i] + (static_cast<float>(codes[i]) + 0.5F) / 255.0F * range[i];
    }
}
