// Eight chains, each of which takes every eighth 64-bit word w. With x <- x ^ w = (high, low) and
// t = factor * (low ^ high), the next x is (low half of t, high half of t ^ high): one to one, as
// the factor is odd, so that two blocks that differ in one word end with different chains; and each
// bit of w reaches some sixteen others at once, which another flipped bit does not undo. Integers
// only: the same bits at every level.

static constexpr std::uint32_t chain_factor = 0x9E3779B1U;  // a prime near 2^32 / golden ratio
static constexpr std::size_t chains = 8;

#if defined(__AVX512F__)

struct Chains {
    static constexpr std::size_t lanes = 8;
    __m512i value;
    static Chains load(const void* p) noexcept { return {_mm512_loadu_si512(p)}; }
    void store(void* p) const noexcept { _mm512_storeu_si512(p, value); }
    void take(Chains word) noexcept {
        const __m512i x = _mm512_xor_si512(value, word.value);
        const __m512i high = _mm512_srli_epi64(x, 32);
        const __m512i factor = _mm512_set1_epi64(chain_factor);
        const __m512i product = _mm512_mul_epu32(_mm512_xor_si512(x, high), factor);
        value = _mm512_xor_si512(_mm512_rol_epi64(product, 32), high);
    }
};

#elif defined(__AVX2__)

struct Chains {
    static constexpr std::size_t lanes = 4;
    __m256i value;
    static Chains load(const void* p) noexcept {
        return {_mm256_loadu_si256(static_cast<const __m256i*>(p))};
    }
    void store(void* p) const noexcept { _mm256_storeu_si256(static_cast<__m256i*>(p), value); }
    void take(Chains word) noexcept {
        const __m256i x = _mm256_xor_si256(value, word.value);
        const __m256i high = _mm256_srli_epi64(x, 32);
        const __m256i factor = _mm256_set1_epi64x(chain_factor);
        const __m256i product = _mm256_mul_epu32(_mm256_xor_si256(x, high), factor);
        value = _mm256_xor_si256(_mm256_shuffle_epi32(product, 0xB1), high);
    }
};

#elif defined(__SSE2__)

struct Chains {
    static constexpr std::size_t lanes = 2;
    __m128i value;
    static Chains load(const void* p) noexcept {
        return {_mm_loadu_si128(static_cast<const __m128i*>(p))};
    }
    void store(void* p) const noexcept { _mm_storeu_si128(static_cast<__m128i*>(p), value); }
    void take(Chains word) noexcept {
        const __m128i x = _mm_xor_si128(value, word.value);
        const __m128i high = _mm_srli_epi64(x, 32);
        const __m128i factor = _mm_set1_epi64x(chain_factor);
        const __m128i product = _mm_mul_epu32(_mm_xor_si128(x, high), factor);
        value = _mm_xor_si128(_mm_shuffle_epi32(product, 0xB1), high);
    }
};

#elif defined(__ARM_NEON) && defined(__aarch64__)

struct Chains {
    static constexpr std::size_t lanes = 2;
    uint64x2_t value;
    static Chains load(const void* p) noexcept {
        return {vreinterpretq_u64_u8(vld1q_u8(static_cast<const std::uint8_t*>(p)))};
    }
    void store(void* p) const noexcept {
        vst1q_u8(static_cast<std::uint8_t*>(p), vreinterpretq_u8_u64(value));
    }
    void take(Chains word) noexcept {
        const uint64x2_t x = veorq_u64(value, word.value);
        const uint64x2_t high = vshrq_n_u64(x, 32);
        const uint64x2_t product =
            vmull_u32(vmovn_u64(veorq_u64(x, high)), vdup_n_u32(chain_factor));
        const uint32x4_t turned = vrev64q_u32(vreinterpretq_u32_u64(product));
        value = veorq_u64(vreinterpretq_u64_u32(turned), high);
    }
};

#else

struct Chains {
    static constexpr std::size_t lanes = 1;
    std::uint64_t value;
    static Chains load(const void* p) noexcept {
        Chains result;
        __builtin_memcpy(&result.value, p, sizeof result.value);
        return result;
    }
    void store(void* p) const noexcept { __builtin_memcpy(p, &value, sizeof value); }
    void take(Chains word) noexcept {
        const std::uint64_t x = value ^ word.value;
        const std::uint64_t high = x >> 32U;
        const std::uint64_t product = ((x ^ high) & 0xFFFFFFFFU) * chain_factor;
        value = (product << 32U | product >> 32U) ^ high;
    }
};

#endif

static void chain(const std::uint8_t* data, std::size_t stripes, std::uint64_t* state) noexcept {
    constexpr std::size_t groups = chains / Chains::lanes;
    Chains group[groups];
    for (std::size_t i = 0; i < groups; ++i) group[i] = Chains::load(state + i * Chains::lanes);
    for (const std::uint8_t* end = data + stripes * chains * 8; data != end; data += chains * 8) {
        for (std::size_t i = 0; i < groups; ++i) {
            group[i].take(Chains::load(data + i * Chains::lanes * 8));
        }
    }
    for (std::size_t i = 0; i < groups; ++i) group[i].store(state + i * Chains::lanes);
}
