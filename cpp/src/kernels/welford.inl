// Welford's and Chan's formulas over many streams at once, element by element.
// Welford (1962), Technometrics 4(3); Chan, Golub, LeVeque (1983), The American Statistician 37(3).

static void welford_update(const float* __restrict values, std::size_t dim, double n,
                           double* __restrict mean, double* __restrict m2) noexcept {
    for (std::size_t i = 0; i < dim; ++i) {
        const double value = static_cast<double>(values[i]);
        const double delta = value - mean[i];
        const double moved = mean[i] + delta / n;
        mean[i] = moved;
        m2[i] += delta * (value - moved);
    }
}

static void welford_block(const float* __restrict rows, std::size_t count, std::size_t dim,
                          double* __restrict mean, double* __restrict m2) noexcept {
    for (std::size_t i = 0; i < dim; ++i) mean[i] = 0.0;
    for (std::size_t row = 0; row < count; ++row) {
        const float* __restrict values = rows + row * dim;
        for (std::size_t i = 0; i < dim; ++i) mean[i] += static_cast<double>(values[i]);
    }
    const double n = static_cast<double>(count);
    for (std::size_t i = 0; i < dim; ++i) {
        mean[i] /= n;
        m2[i] = 0.0;
    }
    for (std::size_t row = 0; row < count; ++row) {
        const float* __restrict values = rows + row * dim;
        for (std::size_t i = 0; i < dim; ++i) {
            const double delta = static_cast<double>(values[i]) - mean[i];
            m2[i] += delta * delta;
        }
    }
}

static void welford_merge(std::size_t dim, double n, double* __restrict mean, double* __restrict m2,
                          double other_n, const double* __restrict other_mean,
                          const double* __restrict other_m2) noexcept {
    const double share = other_n / (n + other_n);
    const double weight = n * share;
    for (std::size_t i = 0; i < dim; ++i) {
        const double delta = other_mean[i] - mean[i];
        mean[i] += delta * share;
        m2[i] += other_m2[i] + delta * delta * weight;
    }
}

static double squared_distance(const float* values, const double* centroid,
                               std::size_t dim) noexcept {
    double lanes[8] = {};
    std::size_t i = 0;
    for (; i + 8 <= dim; i += 8) {
        for (std::size_t lane = 0; lane < 8; ++lane) {
            const double delta = static_cast<double>(values[i + lane]) - centroid[i + lane];
            lanes[lane] += delta * delta;
        }
    }
    for (std::size_t lane = 0; i < dim; ++i, ++lane) {
        const double delta = static_cast<double>(values[i]) - centroid[i];
        lanes[lane] += delta * delta;
    }
    return sum_of_lanes(lanes);
}
