// Scanning rows: inner products, and what turns them into scores.

// R rows at once: the loads of several rows are in flight together and the query is read once.
template <int R>
static inline void inner_products_of(const float* query, const float* rows, std::size_t dim,
                                     float* out) noexcept {
    Vec sums[R];
    for (int r = 0; r < R; ++r) sums[r] = Vec::zero();
    std::size_t i = 0;
    for (; i + Vec::lanes <= dim; i += Vec::lanes) {
        const Vec q = Vec::load(query + i);
        for (int r = 0; r < R; ++r) {
            sums[r].add_product(q, Vec::load(rows + static_cast<std::size_t>(r) * dim + i));
        }
    }
    for (int r = 0; r < R; ++r) {
        float total = sums[r].sum();
        const float* row = rows + static_cast<std::size_t>(r) * dim;
        for (std::size_t j = i; j < dim; ++j) total += query[j] * row[j];
        out[r] = total;
    }
}

static void select_inner_products(const float* query, const float* rows, std::size_t count,
                                  std::size_t dim, float* out) noexcept {
    constexpr int together = 8;
    std::size_t row = 0;
    for (; row + together <= count; row += together) {
        inner_products_of<together>(query, rows + row * dim, dim, out + row);
    }
    for (; row < count; ++row) inner_products_of<1>(query, rows + row * dim, dim, out + row);
}

static inline double sum_of_lanes(const double* lanes) noexcept {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// The product of two float32 is exact in float64, so a fused multiply-add would give the same bits.
static double inner_product(const float* a, const float* b, std::size_t dim) noexcept {
    double lanes[8] = {};
    std::size_t i = 0;
    for (; i + 8 <= dim; i += 8) {
        for (std::size_t lane = 0; lane < 8; ++lane) {
            lanes[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
        }
    }
    for (std::size_t lane = 0; i < dim; ++i, ++lane) {
        lanes[lane] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return sum_of_lanes(lanes);
}

static void divide(const float* values, double divisor, std::size_t dim, float* out) noexcept {
    for (std::size_t i = 0; i < dim; ++i) {
        out[i] = static_cast<float>(static_cast<double>(values[i]) / divisor);
    }
}

static inline float larger(float a, float b) noexcept { return a > b ? a : b; }
static inline float smaller(float a, float b) noexcept { return a < b ? a : b; }

template <bool HasAddends>
static inline void bound_loop(const BoundColumns& c, std::size_t count, const BoundParameters& p,
                              float* __restrict upper) noexcept {
    const float* __restrict cosines = c.cosines;
    const float* __restrict residuals = c.residuals;
    const std::uint16_t* __restrict vividness = c.vividness;
    const std::uint16_t* __restrict recency = c.recency;
    const float* __restrict addends = c.addends;
    const BoundParameters q = p;
    for (std::size_t i = 0; i < count; ++i) {
        float similarity =
            q.similarity_weight * cosines[i] + (q.residual_slope * residuals[i] + q.error);
        if constexpr (HasAddends) similarity += addends[i];
        const float vividness_factor =
            smaller(larger((similarity - q.vividness_start) * q.vividness_slope, 0.0F), 1.0F);
        const float recency_factor =
            smaller(larger((similarity - q.recency_start) * q.recency_slope, 0.0F), 1.0F);
        const float vividness_bonus = static_cast<float>(vividness[i]) * q.vividness_scale;
        const float recency_bonus = static_cast<float>(recency[i]) * q.recency_scale;
        upper[i] = similarity + vividness_factor * vividness_bonus + recency_factor * recency_bonus;
    }
}

// Places of the values that are at least `cut`, which is above minus infinity.
static inline std::size_t places_from(const float* values, std::size_t count, float cut,
                                      std::uint16_t* places) noexcept {
    std::size_t found = 0;
    std::size_t i = 0;
    for (; i + 16 <= count; i += 16) {
#if defined(__AVX512F__)
        const __mmask16 high =
            _mm512_cmp_ps_mask(_mm512_loadu_ps(values + i), _mm512_set1_ps(cut), _CMP_GE_OQ);
        const __m512i lanes =
            _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        const __m512i all = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(i)));
        // Sixteen places are written; those after the found ones are written again.
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(places + found),
                            _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(high, all)));
        found += static_cast<std::size_t>(__builtin_popcount(high));
#else
        int any = 0;
        for (std::size_t lane = 0; lane < 16; ++lane) {
            any |= static_cast<int>(values[i + lane] >= cut);
        }
        if (any == 0) continue;
        for (std::size_t lane = 0; lane < 16; ++lane) {
            places[found] = static_cast<std::uint16_t>(i + lane);
            found += static_cast<std::size_t>(values[i + lane] >= cut);
        }
#endif
    }
    for (; i < count; ++i) {
        places[found] = static_cast<std::uint16_t>(i);
        found += static_cast<std::size_t>(values[i] >= cut);
    }
    return found;
}

static std::size_t bound_scores(const BoundColumns& columns, std::size_t count,
                                const BoundParameters& p, float cut, float* upper,
                                std::uint16_t* places) noexcept {
    constexpr float lowest = -__builtin_inff();
    if (columns.addends != nullptr) {
        bound_loop<true>(columns, count, p, upper);
    } else {
        bound_loop<false>(columns, count, p, upper);
    }
    if (columns.mask != nullptr) {
        for (std::size_t i = 0; i < count; ++i) upper[i] = columns.mask[i] != 0 ? upper[i] : lowest;
    }
    return places_from(upper, count, cut, places);
}

#if defined(__AVX512F__)

static std::size_t place_of_largest(const float* values, std::size_t count) noexcept {
    const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
    const auto load = [&](std::size_t i) {
        const std::size_t left = count - i;
        const auto wanted = static_cast<__mmask16>(left < 16 ? (1U << left) - 1U : 0xFFFFU);
        return _mm512_mask_loadu_ps(lowest, wanted, values + i);
    };
    __m512 best = lowest;
    for (std::size_t i = 0; i < count; i += 16) best = _mm512_max_ps(best, load(i));
    const __m512 largest = _mm512_set1_ps(_mm512_reduce_max_ps(best));
    std::size_t i = 0;
    unsigned found = 0;
    while ((found = _mm512_cmp_ps_mask(load(i), largest, _CMP_EQ_OQ)) == 0) i += 16;
    return i + static_cast<unsigned>(__builtin_ctz(found));
}

#else

static std::size_t place_of_largest(const float* values, std::size_t count) noexcept {
    std::size_t place = 0;
    for (std::size_t i = 1; i < count; ++i) place = values[i] > values[place] ? i : place;
    return place;
}

#endif
