// Products of a block of rows with a group of 16 queries. A row's codes are taken four at a time
// and spread over the queries; packed queries lie as (width / 4, 16 queries, 4 values).

static void unpack_codes(const std::uint8_t* high, const std::uint8_t* low, std::size_t count,
                         std::size_t stride, std::uint8_t* rows) noexcept {
    for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t chunk = 0; chunk < stride; chunk += 64) {
            const std::uint8_t* __restrict upper = high + row * stride + chunk;
            std::uint8_t* __restrict out = rows + 2 * (row * stride + chunk);
            if (low == nullptr) {
                for (std::size_t j = 0; j < 64; ++j) {
                    out[j] = static_cast<std::uint8_t>(upper[j] & 15U);
                    out[64 + j] = static_cast<std::uint8_t>(upper[j] >> 4U);
                }
            } else {
                const std::uint8_t* __restrict lower = low + row * stride + chunk;
                for (std::size_t j = 0; j < 64; ++j) {
                    out[j] = static_cast<std::uint8_t>((upper[j] << 4U) | (lower[j] & 15U));
                    out[64 + j] = static_cast<std::uint8_t>((upper[j] & 0xF0U) | (lower[j] >> 4U));
                }
            }
        }
    }
}

#if defined(__AVX512F__) && defined(__AVX512BW__)

static constexpr std::size_t lane_vectors = 1;
static inline Codes spread_codes(const std::uint8_t* p) noexcept {
    int four;
    __builtin_memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
}
static inline void store_lanes(CodeSums sums, std::int32_t* out) noexcept {
    _mm512_storeu_si512(out, sums);
}

#elif defined(__AVX2__)

static constexpr std::size_t lane_vectors = 2;
static inline Codes spread_codes(const std::uint8_t* p) noexcept {
    int four;
    __builtin_memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
}
static inline void store_lanes(CodeSums sums, std::int32_t* out) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), sums);
}

#elif defined(__ARM_NEON) && defined(__aarch64__)

static constexpr std::size_t lane_vectors = 4;
static inline Codes spread_codes(const std::uint8_t* p) noexcept {
    return vreinterpretq_u8_u32(vld1q_dup_u32(reinterpret_cast<const std::uint32_t*>(p)));
}
static inline void store_lanes(CodeSums sums, std::int32_t* out) noexcept { vst1q_s32(out, sums); }

#endif

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
static constexpr int batch_code_limit = 255;
#elif defined(__AVX2__) || (defined(__ARM_NEON) && defined(__aarch64__))
// Larger codes would overflow the 16-bit sums of pairs, or are not signed bytes.
static constexpr int batch_code_limit = 15;
#else
static constexpr int batch_code_limit = 255;
#endif

#if defined(__AVX2__) || (defined(__ARM_NEON) && defined(__aarch64__))

template <int R>
static inline void batch_rows(const std::uint8_t* rows, std::size_t width,
                              const std::int8_t* packed, std::int32_t* out) noexcept {
    CodeSums sums[R][lane_vectors];
    for (int r = 0; r < R; ++r) {
        for (std::size_t v = 0; v < lane_vectors; ++v) sums[r][v] = no_sums();
    }
    for (std::size_t i = 0; i < width; i += 4) {
        Codes digits[lane_vectors];
        for (std::size_t v = 0; v < lane_vectors; ++v) {
            digits[v] = load_codes(packed + 16 * i + v * codes_bytes);
        }
        for (int r = 0; r < R; ++r) {
            const Codes codes = spread_codes(rows + static_cast<std::size_t>(r) * width + i);
            for (std::size_t v = 0; v < lane_vectors; ++v) {
                sums[r][v] = add_products(sums[r][v], codes, digits[v]);
            }
        }
    }
    for (int r = 0; r < R; ++r) {
        for (std::size_t v = 0; v < lane_vectors; ++v) {
            store_lanes(sums[r][v], out + 16 * r + v * (16 / lane_vectors));
        }
    }
}

static void batch_products(const std::uint8_t* rows, std::size_t count, std::size_t width,
                           const std::int8_t* packed, std::int32_t* out) noexcept {
    constexpr std::size_t together = lane_vectors == 1 ? 16 : 4;
    std::size_t row = 0;
    for (; row + together <= count; row += together) {
        batch_rows<together>(rows + row * width, width, packed, out + 16 * row);
    }
    for (; row < count; ++row) batch_rows<1>(rows + row * width, width, packed, out + 16 * row);
}

#else

static void batch_products(const std::uint8_t* rows, std::size_t count, std::size_t width,
                           const std::int8_t* packed, std::int32_t* out) noexcept {
    for (std::size_t row = 0; row < count; ++row) {
        std::int32_t sums[16] = {};
        for (std::size_t i = 0; i < width; i += 4) {
            for (std::size_t lane = 0; lane < 16; ++lane) {
                for (std::size_t j = 0; j < 4; ++j) {
                    sums[lane] += static_cast<std::int16_t>(rows[row * width + i + j]) *
                                  static_cast<std::int16_t>(packed[16 * i + 4 * lane + j]);
                }
            }
        }
        for (std::size_t lane = 0; lane < 16; ++lane) out[16 * row + lane] = sums[lane];
    }
}

#endif

#if defined(__AMX_INT8__) && defined(__AMX_TILE__)

struct alignas(64) TileConfiguration {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};

// Tiles 0-3 gather the products of two times 16 rows with two times 16 queries.
static void tile_products(const std::uint8_t* rows, std::size_t count, std::size_t width,
                          const std::int8_t* packed, std::size_t groups,
                          std::int32_t* out) noexcept {
    TileConfiguration configuration;
    for (int tile = 0; tile < 8; ++tile) {
        configuration.row_bytes[tile] = 64;
        configuration.rows[tile] = 16;
    }
    _tile_loadconfig(&configuration);
    const std::size_t group_bytes = 16 * width;
    const auto row_step = static_cast<long>(width);
    for (std::size_t group = 0; group < groups; group += 2) {
        for (std::size_t row = 0; row < count; row += 32) {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (std::size_t i = 0; i < width; i += 64) {
                const std::uint8_t* codes = rows + row * width + i;
                const std::int8_t* digits = packed + group * group_bytes + 16 * i;
                _tile_loadd(4, codes, row_step);
                _tile_loadd(5, codes + 16 * width, row_step);
                _tile_loadd(6, digits, 64);
                _tile_loadd(7, digits + group_bytes, 64);
                _tile_dpbusd(0, 4, 6);
                _tile_dpbusd(1, 5, 6);
                _tile_dpbusd(2, 4, 7);
                _tile_dpbusd(3, 5, 7);
            }
            std::int32_t* first = out + 16 * (group * count + row);
            std::int32_t* second = first + 16 * count;
            _tile_stored(0, first, 64);
            _tile_stored(1, first + 256, 64);
            _tile_stored(2, second, 64);
            _tile_stored(3, second + 256, 64);
        }
    }
    _tile_release();
}

static constexpr auto tile_kernel = tile_products;

#else

static constexpr decltype(KernelTable::tile_products) tile_kernel = nullptr;

#endif

static std::size_t select_batch(const std::int32_t* products, std::size_t count,
                                const float* row_scale, const float* row_base,
                                const BatchLanes& lanes, std::uint16_t* hits) noexcept {
    std::size_t found = 0;
#if defined(__AVX512F__)
    const __m512i bias = _mm512_load_si512(lanes.bias);
    const __m512 scale = _mm512_load_ps(lanes.scale);
    const __m512 cut = _mm512_load_ps(lanes.cut);
    const __m128i shift = _mm_cvtsi32_si128(lanes.shift);
    const auto mask_of = [&](std::size_t row) {
        const __m512i product = _mm512_sll_epi32(_mm512_loadu_si512(products + 16 * row), shift);
        const __m512 value =
            _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(product, bias)), scale);
        const __m512 score =
            _mm512_fmadd_ps(value, _mm512_set1_ps(row_scale[row]), _mm512_set1_ps(row_base[row]));
        return static_cast<unsigned>(_mm512_cmp_ps_mask(score, cut, _CMP_GE_OQ));
    };
    const auto take = [&](std::size_t row, unsigned mask) {
        for (; mask != 0; mask &= mask - 1) {
            hits[found++] =
                static_cast<std::uint16_t>(16 * row + static_cast<unsigned>(__builtin_ctz(mask)));
        }
    };
    std::size_t row = 0;
    for (; row + 4 <= count; row += 4) {
        const unsigned masks[4] = {mask_of(row), mask_of(row + 1), mask_of(row + 2),
                                   mask_of(row + 3)};
        if ((masks[0] | masks[1] | masks[2] | masks[3]) == 0) continue;
        for (std::size_t i = 0; i < 4; ++i) take(row + i, masks[i]);
    }
    for (; row < count; ++row) take(row, mask_of(row));
#else
    const int factor = 1 << lanes.shift;
    for (std::size_t row = 0; row < count; ++row) {
        float scores[16];
        int any = 0;
        for (std::size_t lane = 0; lane < 16; ++lane) {
            const int product = factor * products[16 * row + lane] - lanes.bias[lane];
            scores[lane] =
                static_cast<float>(product) * lanes.scale[lane] * row_scale[row] + row_base[row];
            any |= static_cast<int>(scores[lane] >= lanes.cut[lane]);
        }
        if (any == 0) continue;
        for (std::size_t lane = 0; lane < 16; ++lane) {
            if (scores[lane] >= lanes.cut[lane]) {
                hits[found++] = static_cast<std::uint16_t>(16 * row + lane);
            }
        }
    }
#endif
    return found;
}
