#include "batch_products.hpp"

#include <limits>

#include "dispatch.hpp"

namespace flashbulb {

bool BatchProducts::multiplies_both_planes() { return active_kernels().batch_limit >= 255; }

BatchProducts::BatchProducts(const CodedQueries& queries, std::size_t stride, bool both_planes)
    : queries_(queries),
      stride_(stride),
      both_planes_(both_planes),
      tiles_(active_kernels().tile_products != nullptr),
      memory_(most_rows * 2 * stride + 64),
      rows_(memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64),
      products_((tiles_ ? queries.groups() : 1) * most_rows * CodedQueries::lanes) {}

void BatchProducts::unpack(const Sketch::Run& run, std::size_t source, std::size_t count,
                           std::size_t target) {
    active_kernels().unpack_codes(run.high + source * stride_,
                                  both_planes_ ? run.low + source * stride_ : nullptr, count,
                                  stride_, rows_ + target * 2 * stride_);
}

void BatchProducts::start(std::size_t count) {
    count_ = count;
    if (!tiles_) return;
    padded_ = (count + 31) / 32 * 32;  // what was there before is multiplied and not looked at
    active_kernels().tile_products(rows_, padded_, 2 * stride_, queries_.packed(0),
                                   queries_.groups(), products_.data());
}

const std::int32_t* BatchProducts::of_group(std::size_t group) {
    if (tiles_) return products_.data() + group * padded_ * CodedQueries::lanes;
    active_kernels().batch_products(rows_, count_, 2 * stride_, queries_.packed(group),
                                    products_.data());
    return products_.data();
}

void BatchProducts::set_lane(kernels::BatchLanes& lanes, std::size_t query, double scale,
                             float cut) const {
    const kernels::CodedQuery& coded = queries_[query];
    const std::size_t lane = query % CodedQueries::lanes;
    const double step = static_cast<double>(coded.scale4) * (both_planes_ ? 2.0 : 1.0);
    lanes.shift = both_planes_ ? 0 : 5;
    lanes.bias[lane] = both_planes_ ? coded.high_bias8 : coded.high_bias4;
    lanes.scale[lane] = static_cast<float>(step * scale);
    lanes.cut[lane] = cut;
}

void BatchProducts::clear_lane(kernels::BatchLanes& lanes, std::size_t lane) noexcept {
    lanes.bias[lane] = 0;
    lanes.scale[lane] = 0.0F;
    lanes.cut[lane] = std::numeric_limits<float>::infinity();
}

double BatchProducts::cosine(std::size_t query, std::int32_t product,
                             float row_scale) const noexcept {
    const kernels::CodedQuery& coded = queries_[query];
    const std::int32_t doubled =
        both_planes_ ? 2 * (product - coded.high_bias8) : 32 * product - coded.high_bias4;
    return static_cast<double>(doubled) * static_cast<double>(coded.scale4) *
           static_cast<double>(row_scale);
}

}  // namespace flashbulb
