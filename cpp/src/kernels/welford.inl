// Welford's and Chan's formulas over many streams at once, element by element.
// Welford (1962), Technometrics 4(3); Chan, Golub, LeVeque (1983), The American Statistician 37(3).
//
// The update multiplies by 1/n, rounded once, where the textbook divides by n: a division for every
// element would take twice the time of reading it. The mean moves by half an ulp of its step at
// most, and the definition is the same at every level.

// Bytes ahead of what is being read: the loop stops for nothing else, and the processor's own
// prefetcher hides half of the way to memory.
static constexpr std::size_t welford_prefetch = 12288;

// The next value of eight streams from each of `Rows` rows, one row after the other: each mean and
// m2 is loaded and stored once. sums[row] gathers the squared steps, lane by lane.
template <std::size_t Rows>
static inline void welford_step(const float* values, std::size_t stride, const Part (&share)[Rows],
                                double* mean, double* m2, Part (&sums)[Rows][parts]) noexcept {
    for (std::size_t part = 0; part < parts; ++part) {
        const std::size_t first = part * Part::lanes;
        Part m = Part::load(mean + first);
        Part s = Part::load(m2 + first);
        for (std::size_t row = 0; row < Rows; ++row) {
            const Part value = Part::load(values + row * stride + first);
            const Part delta = value - m;
            m = m + delta * share[row];
            s = s + delta * (value - m);
            sums[row][part] = sums[row][part] + delta * delta;
        }
        m.store(mean + first);
        s.store(m2 + first);
    }
}

template <std::size_t Rows>
static inline void welford_rows(const float* values, std::size_t dim, double n, double* mean,
                                double* m2, double* squared) noexcept {
    Part share[Rows];
    Part sums[Rows][parts];
    for (std::size_t row = 0; row < Rows; ++row) {
        share[row] = Part::all(1.0 / (n + static_cast<double>(row + 1)));
        for (Part& sum : sums[row]) sum = Part::all(0.0);
    }
    std::size_t i = 0;
    for (; i + all_lanes <= dim; i += all_lanes) {
        for (std::size_t row = 0; row < Rows; ++row) {
            __builtin_prefetch(reinterpret_cast<const void*>(
                reinterpret_cast<std::uintptr_t>(values + row * dim + i) + welford_prefetch));
        }
        welford_step<Rows>(values + i, dim, share, mean + i, m2 + i, sums);
    }
    if (i < dim) {
        // Lanes beyond the end are zeros and stay so.
        float last[Rows * all_lanes] = {};
        double last_mean[all_lanes] = {};
        double last_m2[all_lanes] = {};
        for (std::size_t lane = 0; lane < dim - i; ++lane) {
            for (std::size_t row = 0; row < Rows; ++row) {
                last[row * all_lanes + lane] = values[row * dim + i + lane];
            }
            last_mean[lane] = mean[i + lane];
            last_m2[lane] = m2[i + lane];
        }
        welford_step<Rows>(last, all_lanes, share, last_mean, last_m2, sums);
        for (std::size_t lane = 0; lane < dim - i; ++lane) {
            mean[i + lane] = last_mean[lane];
            m2[i + lane] = last_m2[lane];
        }
    }
    for (std::size_t row = 0; row < Rows; ++row) {
        double lanes[all_lanes];
        for (std::size_t part = 0; part < parts; ++part) {
            sums[row][part].store(lanes + part * Part::lanes);
        }
        squared[row] = sum_of_lanes(lanes);
    }
}

static void welford_update(const float* rows, std::size_t count, std::size_t dim, double n,
                           double* mean, double* m2, double* squared) noexcept {
    std::size_t row = 0;
    for (; row + 4 <= count; row += 4) {
        welford_rows<4>(rows + row * dim, dim, n + static_cast<double>(row), mean, m2,
                        squared + row);
    }
    for (; row < count; ++row) {
        welford_rows<1>(rows + row * dim, dim, n + static_cast<double>(row), mean, m2,
                        squared + row);
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
