// The eight fixed float64 lanes of every sum, in parts as wide as the level has registers. Element
// i belongs to lane i mod 8 at every level, and the lanes are added up in a fixed tree: the same
// bits everywhere. Contraction is off; nothing here multiplies and adds at once.

#if defined(__AVX512F__)

struct Part {
    static constexpr std::size_t lanes = 8;
    __m512d value;
    static Part all(double x) noexcept { return {_mm512_set1_pd(x)}; }
    static Part load(const double* p) noexcept { return {_mm512_loadu_pd(p)}; }
    static Part load(const float* p) noexcept { return {_mm512_cvtps_pd(_mm256_loadu_ps(p))}; }
    void store(double* p) const noexcept { _mm512_storeu_pd(p, value); }
    Part operator+(Part other) const noexcept { return {_mm512_add_pd(value, other.value)}; }
    Part operator-(Part other) const noexcept { return {_mm512_sub_pd(value, other.value)}; }
    Part operator*(Part other) const noexcept { return {_mm512_mul_pd(value, other.value)}; }
};

#elif defined(__AVX2__)

struct Part {
    static constexpr std::size_t lanes = 4;
    __m256d value;
    static Part all(double x) noexcept { return {_mm256_set1_pd(x)}; }
    static Part load(const double* p) noexcept { return {_mm256_loadu_pd(p)}; }
    static Part load(const float* p) noexcept { return {_mm256_cvtps_pd(_mm_loadu_ps(p))}; }
    void store(double* p) const noexcept { _mm256_storeu_pd(p, value); }
    Part operator+(Part other) const noexcept { return {_mm256_add_pd(value, other.value)}; }
    Part operator-(Part other) const noexcept { return {_mm256_sub_pd(value, other.value)}; }
    Part operator*(Part other) const noexcept { return {_mm256_mul_pd(value, other.value)}; }
};

#elif defined(__SSE2__)

struct Part {
    static constexpr std::size_t lanes = 2;
    __m128d value;
    static Part all(double x) noexcept { return {_mm_set1_pd(x)}; }
    static Part load(const double* p) noexcept { return {_mm_loadu_pd(p)}; }
    static Part load(const float* p) noexcept {
        return {
            _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
    }
    void store(double* p) const noexcept { _mm_storeu_pd(p, value); }
    Part operator+(Part other) const noexcept { return {_mm_add_pd(value, other.value)}; }
    Part operator-(Part other) const noexcept { return {_mm_sub_pd(value, other.value)}; }
    Part operator*(Part other) const noexcept { return {_mm_mul_pd(value, other.value)}; }
};

#elif defined(__ARM_NEON) && defined(__aarch64__)

struct Part {
    static constexpr std::size_t lanes = 2;
    float64x2_t value;
    static Part all(double x) noexcept { return {vdupq_n_f64(x)}; }
    static Part load(const double* p) noexcept { return {vld1q_f64(p)}; }
    static Part load(const float* p) noexcept { return {vcvt_f64_f32(vld1_f32(p))}; }
    void store(double* p) const noexcept { vst1q_f64(p, value); }
    Part operator+(Part other) const noexcept { return {vaddq_f64(value, other.value)}; }
    Part operator-(Part other) const noexcept { return {vsubq_f64(value, other.value)}; }
    Part operator*(Part other) const noexcept { return {vmulq_f64(value, other.value)}; }
};

#else

struct Part {
    static constexpr std::size_t lanes = 1;
    double value;
    static Part all(double x) noexcept { return {x}; }
    static Part load(const double* p) noexcept { return {*p}; }
    static Part load(const float* p) noexcept { return {static_cast<double>(*p)}; }
    void store(double* p) const noexcept { *p = value; }
    Part operator+(Part other) const noexcept { return {value + other.value}; }
    Part operator-(Part other) const noexcept { return {value - other.value}; }
    Part operator*(Part other) const noexcept { return {value * other.value}; }
};

#endif

static constexpr std::size_t all_lanes = 8;
static constexpr std::size_t parts = all_lanes / Part::lanes;
