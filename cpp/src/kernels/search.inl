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

static double fuse(const float* __restrict cosines, const double* __restrict errors,
                   const double* __restrict addends, const double* __restrict vividness_bonus,
                   const double* __restrict recency_bonus, const std::uint8_t* __restrict mask,
                   std::size_t count, const FuseParameters& p, double* __restrict upper) noexcept {
    constexpr double lowest = -__builtin_inf();
    const double weight = p.similarity_weight;
    const Ramp vividness_ramp = p.vividness;
    const Ramp recency_ramp = p.recency;
    for (std::size_t i = 0; i < count; ++i) {
        const double similarity =
            (weight * static_cast<double>(cosines[i]) + addends[i]) + errors[i];
        upper[i] =
            fused(similarity, vividness_bonus[i], recency_bonus[i], vividness_ramp, recency_ramp);
    }
    double best[8];
    for (double& value : best) value = lowest;
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (std::size_t lane = 0; lane < 8; ++lane) {
            const double score = mask[i + lane] != 0 ? upper[i + lane] : lowest;
            upper[i + lane] = score;
            best[lane] = larger(score, best[lane]);
        }
    }
    for (; i < count; ++i) {
        upper[i] = mask[i] != 0 ? upper[i] : lowest;
        best[0] = larger(upper[i], best[0]);
    }
    double result = lowest;
    for (const double value : best) result = larger(value, result);
    return result;
}
