#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace flashbulb {

/// What the bonus of each row can be at most, from a moment on: both factors only fall as time
/// passes, so that their values at `from` bound every later one. A code stands for at most
/// `code * bonus_bound_step`, before the weights of a search.
struct BonusBounds {
    double from = 0.0;                     ///< epoch seconds; the bounds hold for now >= from
    std::vector<std::uint16_t> vividness;  ///< effective vividness times salience
    std::vector<std::uint16_t> recency;    ///< exp(-age / recency_days)
};

/// 1/65535 and a little more (2^-22 of it), so that the product with a code, rounded to float32 or
/// to float64, is never below the value that the code was rounded up from. 65535 steps are above 1.
inline constexpr float bonus_bound_step = 0x1.000104p-16F;

/// The present bounds of a table. `get` may be called by many readers at once, everything else
/// must run alone. A copy starts without bounds.
class BonusBoundsCache {
public:
    /// Fills the bounds of all rows for the moment `from`, which is set.
    using Compute = std::function<void(BonusBounds&)>;

    BonusBoundsCache() = default;
    BonusBoundsCache(const BonusBoundsCache&) noexcept {}           ///< without the bounds
    BonusBoundsCache& operator=(const BonusBoundsCache&) noexcept;  ///< forgets its own bounds
    ~BonusBoundsCache() = default;

    /// Bounds that hold at `now`, made anew by `compute` (which finds `from` set) if there are
    /// none or they are older than `patience` seconds. One reader does that; those that come
    /// meanwhile get the old ones.
    /// @return null if there are none for a time that early: then the laws themselves are needed.
    [[nodiscard]] std::shared_ptr<const BonusBounds> get(double now, double patience,
                                                         const Compute& compute) const;

    /// The bounds, to be changed together with the rows; null if there are none.
    [[nodiscard]] BonusBounds* present() noexcept { return present_.get(); }
    /// Forgets them; the next reader makes new ones.
    void reset() noexcept { present_.reset(); }

private:
    [[nodiscard]] std::shared_ptr<const BonusBounds> usable(double now, double patience,
                                                            bool& stale) const;

    mutable std::mutex pointer_;  // guards the two below, for a moment
    mutable std::shared_ptr<BonusBounds> present_;
    mutable int calls_before_ = 0;  // in a row, for a time before the bounds
    mutable std::mutex refresh_;    // held by the reader that makes new ones
};

}  // namespace flashbulb
