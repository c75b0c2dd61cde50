// Vividness and bonus of a range of rows.

template <bool Asymptotic>
static void vividness_loop(const LawColumns& c, std::size_t begin, std::size_t count, double now,
                           double* __restrict out) noexcept {
    const double* __restrict anchor = c.vividness + begin;
    const double* __restrict time = c.vividness_time + begin;
    const double* __restrict rate = c.decay_rate + begin;
    const double* __restrict floor = c.floor + begin;
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = decayed<Asymptotic>(anchor[i], time[i], rate[i], floor[i], now);
    }
}

static void vividness(const LawColumns& columns, std::size_t begin, std::size_t count,
                      const LawParameters& p, double* out) noexcept {
    if (p.asymptotic) {
        vividness_loop<true>(columns, begin, count, p.now, out);
    } else {
        vividness_loop<false>(columns, begin, count, p.now, out);
    }
}

template <bool Asymptotic>
static void bonus_loop(const LawColumns& c, std::size_t begin, std::size_t count,
                       const LawParameters& p, double* __restrict vividness_bonus,
                       double* __restrict recency_bonus) noexcept {
    const double* __restrict anchor = c.vividness + begin;
    const double* __restrict time = c.vividness_time + begin;
    const double* __restrict rate = c.decay_rate + begin;
    const double* __restrict floor = c.floor + begin;
    const double* __restrict shift = c.task_shift + begin;
    const double* __restrict salience = c.bonus_salience + begin;
    const double* __restrict recency_time = c.recency_time + begin;
    const double now = p.now;
    const double vividness_weight = p.vividness_weight;
    const double recency_weight = p.recency_weight;
    const double recency_seconds = p.recency_seconds;
    for (std::size_t i = 0; i < count; ++i) {
        const double v = decayed<Asymptotic>(anchor[i], time[i], rate[i], floor[i], now);
        vividness_bonus[i] = vividness_weight * effective(v, shift[i], floor[i]) * salience[i];
        recency_bonus[i] =
            recency_weight * exp_of_negative(-age_seconds(now, recency_time[i]) / recency_seconds);
    }
}

static void bonus(const LawColumns& columns, std::size_t begin, std::size_t count,
                  const LawParameters& p, double* vividness_bonus, double* recency_bonus) noexcept {
    if (p.asymptotic) {
        bonus_loop<true>(columns, begin, count, p, vividness_bonus, recency_bonus);
    } else {
        bonus_loop<false>(columns, begin, count, p, vividness_bonus, recency_bonus);
    }
}
