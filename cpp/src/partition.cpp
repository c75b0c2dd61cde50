#include "flashbulb/partition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "dispatch.hpp"

namespace flashbulb {

Partition::Partition(std::vector<float> centroids, std::size_t dim, Metric metric)
    : dim_(dim), centroids_(std::move(centroids)) {
    if (dim == 0 || centroids_.empty() || centroids_.size() % dim != 0) {
        throw std::invalid_argument("expected centroids of dim " + std::to_string(dim) + ", got " +
                                    std::to_string(centroids_.size()) + " values");
    }
    if (!std::all_of(centroids_.begin(), centroids_.end(),
                     [](float value) { return std::isfinite(value); })) {
        throw std::invalid_argument("a centroid holds a value that is not finite");
    }
    members_.resize(centroids_.size() / dim);
    offsets_.assign(members_.size(), 0.0F);
    if (metric == Metric::inner_product) return;
    for (std::size_t list = 0; list < lists(); ++list) {
        // |q - c|^2 = |q|^2 - 2 (q.c - |c|^2 / 2)
        const float* centroid = centroids_.data() + list * dim;
        const double squared = active_kernels().inner_product(centroid, centroid, dim);
        offsets_[list] = static_cast<float>(-0.5 * squared);
    }
}

std::size_t Partition::memory_bytes() const noexcept {
    std::size_t bytes = (centroids_.size() + offsets_.size()) * sizeof(float);
    for (const auto& rows : members_) {
        bytes += sizeof(std::vector<std::uint32_t>) + rows.capacity() * sizeof(std::uint32_t);
    }
    return bytes;
}

void Partition::append(std::span<const std::uint32_t> lists, std::size_t each) {
    if (each == 0 || lists.size() % each != 0) {
        throw std::invalid_argument("expected " + std::to_string(each) +
                                    " lists for each row and at least one, got " +
                                    std::to_string(lists.size()));
    }
    if (lists.size() / each > std::numeric_limits<std::uint32_t>::max() - rows_) {
        throw std::length_error("a partition holds less than 2^32 rows");
    }
    std::vector<std::size_t> more(members_.size());
    for (const std::uint32_t list : lists) {
        if (list >= members_.size()) {
            throw std::invalid_argument("expected a list below " + std::to_string(members_.size()) +
                                        ", got " + std::to_string(list));
        }
        ++more[list];
    }
    for (std::size_t list = 0; list < members_.size(); ++list) {  // what can fail comes first
        auto& rows = members_[list];
        const std::size_t needed = rows.size() + more[list];
        if (needed > rows.capacity()) rows.reserve(std::max(needed, rows.size() * 3 / 2));
    }
    for (std::size_t i = 0; i < lists.size(); ++i) {
        members_[lists[i]].push_back(static_cast<std::uint32_t>(rows_ + i / each));
    }
    rows_ += lists.size() / each;
}

void Partition::truncate(std::size_t count) noexcept {
    if (count >= rows_) return;
    for (auto& rows : members_) {
        rows.erase(std::lower_bound(rows.begin(), rows.end(), count), rows.end());
    }
    rows_ = count;
}

void Partition::keep(std::span<const std::size_t> kept) {
    constexpr std::uint32_t gone = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> moved(rows_, gone);
    std::size_t left = 0;
    while (left < kept.size() && kept[left] < rows_) {
        moved[kept[left]] = static_cast<std::uint32_t>(left);
        ++left;
    }
    for (auto& rows : members_) {
        std::size_t count = 0;
        for (const std::uint32_t row : rows) {
            if (moved[row] != gone) rows[count++] = moved[row];
        }
        rows.resize(count);
    }
    rows_ = left;
}

std::vector<std::uint32_t> Partition::nearest(const float* query, std::size_t least,
                                              std::size_t wanted) const {
    std::vector<float> products(lists());
    active_kernels().select_inner_products(query, centroids_.data(), lists(), dim_,
                                           products.data());
    std::vector<std::pair<float, std::uint32_t>> heap(lists());
    for (std::size_t list = 0; list < lists(); ++list) {
        heap[list] = {products[list] + offsets_[list], static_cast<std::uint32_t>(list)};
    }
    const auto ranks_after = [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
    };
    std::make_heap(heap.begin(), heap.end(), ranks_after);
    std::vector<std::uint32_t> found;
    std::size_t rows = 0;
    while (!heap.empty() && (found.size() < least || rows < wanted)) {
        std::pop_heap(heap.begin(), heap.end(), ranks_after);
        found.push_back(heap.back().second);
        rows += members_[found.back()].size();
        heap.pop_back();
    }
    return found;
}

}  // namespace flashbulb
