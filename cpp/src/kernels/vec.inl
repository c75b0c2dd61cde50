// The widest float32 vector of the level this file is compiled for. Selection kernels are written
// once against it.

#if defined(__AVX512F__)

struct Vec {
    static constexpr std::size_t lanes = 16;
    __m512 value;
    static Vec zero() noexcept { return {_mm512_setzero_ps()}; }
    static Vec load(const float* p) noexcept { return {_mm512_loadu_ps(p)}; }
    void add_product(Vec a, Vec b) noexcept { value = _mm512_fmadd_ps(a.value, b.value, value); }
    Vec operator+(Vec other) const noexcept { return {_mm512_add_ps(value, other.value)}; }
    float sum() const noexcept {
        const __m256 low = _mm512_castps512_ps256(value);
        const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(value), 1));
        const __m256 eight = _mm256_add_ps(low, high);
        __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        four = _mm_add_ps(four, _mm_movehl_ps(four, four));
        four = _mm_add_ss(four, _mm_shuffle_ps(four, four, 1));
        return _mm_cvtss_f32(four);
    }
};

#elif defined(__AVX2__) && defined(__FMA__)

struct Vec {
    static constexpr std::size_t lanes = 8;
    __m256 value;
    static Vec zero() noexcept { return {_mm256_setzero_ps()}; }
    static Vec load(const float* p) noexcept { return {_mm256_loadu_ps(p)}; }
    void add_product(Vec a, Vec b) noexcept { value = _mm256_fmadd_ps(a.value, b.value, value); }
    Vec operator+(Vec other) const noexcept { return {_mm256_add_ps(value, other.value)}; }
    float sum() const noexcept {
        __m128 four = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
        four = _mm_add_ps(four, _mm_movehl_ps(four, four));
        four = _mm_add_ss(four, _mm_shuffle_ps(four, four, 1));
        return _mm_cvtss_f32(four);
    }
};

#elif defined(__SSE2__)

struct Vec {
    static constexpr std::size_t lanes = 4;
    __m128 value;
    static Vec zero() noexcept { return {_mm_setzero_ps()}; }
    static Vec load(const float* p) noexcept { return {_mm_loadu_ps(p)}; }
    void add_product(Vec a, Vec b) noexcept {
        value = _mm_add_ps(_mm_mul_ps(a.value, b.value), value);
    }
    Vec operator+(Vec other) const noexcept { return {_mm_add_ps(value, other.value)}; }
    float sum() const noexcept {
        __m128 four = _mm_add_ps(value, _mm_movehl_ps(value, value));
        four = _mm_add_ss(four, _mm_shuffle_ps(four, four, 1));
        return _mm_cvtss_f32(four);
    }
};

#elif defined(__ARM_NEON) && defined(__aarch64__)

struct Vec {
    static constexpr std::size_t lanes = 4;
    float32x4_t value;
    static Vec zero() noexcept { return {vdupq_n_f32(0.0F)}; }
    static Vec load(const float* p) noexcept { return {vld1q_f32(p)}; }
    void add_product(Vec a, Vec b) noexcept { value = vfmaq_f32(value, a.value, b.value); }
    Vec operator+(Vec other) const noexcept { return {vaddq_f32(value, other.value)}; }
    float sum() const noexcept { return vaddvq_f32(value); }
};

#else

struct Vec {
    static constexpr std::size_t lanes = 1;
    float value;
    static Vec zero() noexcept { return {0.0F}; }
    static Vec load(const float* p) noexcept { return {*p}; }
    void add_product(Vec a, Vec b) noexcept { value += a.value * b.value; }
    Vec operator+(Vec other) const noexcept { return {value + other.value}; }
    float sum() const noexcept { return value; }
};

#endif
