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

static float bound_scores(const BoundColumns& columns, std::size_t count, const BoundParameters& p,
                          float* upper) noexcept {
    constexpr float lowest = -__builtin_inff();
    if (columns.addends != nullptr) {
        bound_loop<true>(columns, count, p, upper);
    } else {
        bound_loop<false>(columns, count, p, upper);
    }
    if (columns.mask != nullptr) {
        for (std::size_t i = 0; i < count; ++i) upper[i] = columns.mask[i] != 0 ? upper[i] : lowest;
    }
    float best[16];
    for (float& value : best) value = lowest;
    std::size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (std::size_t lane = 0; lane < 16; ++lane) {
            best[lane] = larger(upper[i + lane], best[lane]);
        }
    }
    for (; i < count; ++i) best[0] = larger(upper[i], best[0]);
    float result = lowest;
    for (const float value : best) result = larger(value, result);
    return result;
}
