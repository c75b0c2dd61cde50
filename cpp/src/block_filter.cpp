#include "block_filter.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "dispatch.hpp"

namespace flashbulb {

Cursor::Cursor(const std::vector<std::size_t>& sorted, std::size_t begin)
    : sorted_(&sorted),
      place_(static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), begin) -
                                      sorted.begin())) {}

bool has_window(const Filter& filter) noexcept {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return filter.since > -infinity || filter.until < infinity;
}

BlockFilter::BlockFilter(const TraceTable& traces, const Filter& filter, std::size_t begin)
    : traces_(traces),
      columns_(traces.columns()),
      filter_(filter),
      has_window_(has_window(filter)),
      wanted_bloom_(tag_bloom(filter.tags)),
      exempt_(filter.time_exempt, begin),
      allowed_(filter.allowed ? *filter.allowed : no_rows_, begin) {
    if (filter.status) {
        care_ |= TraceTable::task | TraceTable::completed;
        if (*filter.status != TaskStatus::not_a_task) want_ |= TraceTable::task;
        if (*filter.status == TaskStatus::completed) want_ |= TraceTable::completed;
    }
    passes_all_ =
        traces.live() == traces.rows() && !filter.status && !has_window_ && filter.tags.empty();
}

std::size_t BlockFilter::next(std::size_t begin, std::size_t end) {
    if (filter_.unknown_tag) return end;
    return filter_.allowed ? std::min(allowed_.next(begin, end), end) : begin;
}

std::size_t BlockFilter::operator()(std::size_t begin, std::size_t count, std::uint8_t* mask) {
    if (filter_.unknown_tag) return 0;
    const auto& kernels = active_kernels();
    kernels.filter_flags(columns_.flags + begin, count, care_, want_, mask);
    if (has_window_) {
        std::array<std::uint8_t, block_rows> before{};
        std::copy(mask, mask + count, before.begin());
        kernels.filter_times(columns_.created + begin, count, filter_.since, filter_.until, mask);
        exempt_.visit(begin, begin + count, [&](std::size_t row, std::size_t) {
            mask[row - begin] = before[row - begin];
        });
    }
    if (filter_.allowed) {
        std::array<std::uint8_t, block_rows> named{};
        allowed_.visit(begin, begin + count,
                       [&](std::size_t row, std::size_t) { named[row - begin] = 1; });
        for (std::size_t i = 0; i < count; ++i) mask[i] &= named[i];
    }
    if (!filter_.tags.empty()) traces_.filter_tags(begin, count, filter_.tags, mask);
    return static_cast<std::size_t>(std::count(mask, mask + count, std::uint8_t{1}));
}

std::size_t BlockFilter::keep(std::size_t begin, std::uint16_t* places, std::size_t count) {
    if (filter_.unknown_tag) return 0;
    if (passes_all_) return count;  // which spares a read here and there for each row
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t row = begin + places[i];
        if ((columns_.flags[row] & care_) != want_) continue;
        if (has_window_) {
            const double created = columns_.created[row];
            const bool inside = filter_.since <= created && created < filter_.until;
            if (!inside && exempt_.next(row, row + 1) != row) continue;
        }
        if (!filter_.tags.empty()) {
            if ((columns_.tag_bloom[row] & wanted_bloom_) != wanted_bloom_) continue;
            if (!traces_.has_tags(row, filter_.tags)) continue;
        }
        places[kept++] = places[i];
    }
    return kept;
}

}  // namespace flashbulb
