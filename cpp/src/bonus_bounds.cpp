#include "flashbulb/bonus_bounds.hpp"

#include <cmath>
#include <utility>

namespace flashbulb {

namespace {
// A caller who looks into the past now and then must not drop the bounds of the present; one who
// stays there (because another once asked for a time far ahead) gets bounds again.
constexpr int calls_before_going_back = 16;
}  // namespace

BonusBoundsCache& BonusBoundsCache::operator=(const BonusBoundsCache&) noexcept {
    reset();
    return *this;
}

std::shared_ptr<const BonusBounds> BonusBoundsCache::usable(double now, double patience,
                                                            bool& stale) const {
    const std::scoped_lock guard(pointer_);
    if (present_ == nullptr) {
        stale = true;
        return nullptr;
    }
    if (now < present_->from) {
        stale = ++calls_before_ >= calls_before_going_back;
        return nullptr;
    }
    calls_before_ = 0;
    stale = now - present_->from > patience;
    return present_;
}

std::shared_ptr<const BonusBounds> BonusBoundsCache::get(double now, double patience,
                                                         const Compute& compute) const {
    if (!std::isfinite(now)) return nullptr;
    bool stale = false;
    auto found = usable(now, patience, stale);
    if (!stale) return found;
    const std::unique_lock refreshing(refresh_, std::try_to_lock);
    if (!refreshing) return found;
    // Another reader may have been done between the look and the lock.
    found = usable(now, patience, stale);
    if (!stale) return found;
    auto fresh = std::make_shared<BonusBounds>();
    fresh->from = now;
    compute(*fresh);
    const std::scoped_lock guard(pointer_);
    calls_before_ = 0;
    present_ = fresh;
    return fresh;
}

}  // namespace flashbulb
