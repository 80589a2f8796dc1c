#include <mha/compare/elements.hpp>

#include <bit>

namespace mha {

bool same_bits(double a, double r, DType dtype) {
  if (std::isnan(a) || std::isnan(r)) return std::isnan(a) && std::isnan(r);
  const auto x = static_cast<float>(a), y = static_cast<float>(r);
  switch (dtype) {
  case DType::f64:
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(r);
  case DType::f16:
    return to_half(x) == to_half(y);
  case DType::bf16:
    return to_bfloat16(x) == to_bfloat16(y);
  default:
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  }
}

// The loops of ElementBlock have neither branches nor floating-point sums, so that compilers
// vectorise them. Ordered sums and work on few elements have loops of their own.

ElementBlock::ElementBlock(const Elements<float, float>& some, const Judge& by)
    : some_(some), by_(by), n_(some.count) {
  ours_.fill(0), theirs_.fill(0);
  if (some.our_step == 1 && some.step == 1) {
    std::copy_n(some.ours, n_, ours_.begin());
    std::copy_n(some.theirs + some.first, n_, theirs_.begin());
  } else {
    for (std::size_t i = 0; i < n_; ++i) {
      ours_[i] = some.ours[static_cast<std::ptrdiff_t>(i) * some.our_step];
      theirs_[i] = some.theirs[some.first + i * some.step];
    }
  }
  constexpr std::int32_t infinite = 0x7f80'0000;
  int special = 0;
  for (std::size_t i = 0; i < most; ++i)
    special += static_cast<int>((std::bit_cast<std::int32_t>(ours_[i]) & infinite) == infinite) +
               static_cast<int>((std::bit_cast<std::int32_t>(theirs_[i]) & infinite) == infinite);
  for (std::size_t i = 0; by.masks && i < most; ++i)
    special += static_cast<int>(is_mask(theirs_[i]));
  plain_ = special == 0;
}

void ElementBlock::find_errors() {
  const double absolute = by_.tolerance.absolute, relative = by_.tolerance.relative,
               small = by_.small;
  std::array<double, most> given;
  given.fill(-1);
  for (std::size_t i = 0; some_.allowed && i < n_; ++i)
    given[i] = static_cast<double>(some_.allowed[some_.first + i * some_.step]);
  for (std::size_t i = 0; i < most; ++i) {
    const double a = static_cast<double>(ours_[i]), r = static_cast<double>(theirs_[i]),
                 magnitude = std::abs(r), error = std::abs(a - r);
    error_[i] = error, size_[i] = std::max(magnitude, small);
    wrong_[i] = static_cast<int>(error != 0) &
                static_cast<int>(!(error <= absolute + relative * magnitude)) &
                static_cast<int>(!(error <= given[i]));
  }
}

void ElementBlock::compare(ComparedRow& sums, ComparedElements& to) {
  to.count += n_, to.finite += n_;
  double dot = sums.dot, aa = sums.aa, rr = sums.rr; // in registers
  for (std::size_t i = 0; i < n_; ++i) {
    const double a = static_cast<double>(ours_[i]), r = static_cast<double>(theirs_[i]);
    dot += a * r, aa += a * a, rr += r * r;
  }
  sums.dot = dot, sums.aa = aa, sums.rr = rr;
  int different = 0, wrong = 0;
  for (std::size_t i = 0; i < most; ++i)
    different += static_cast<int>(std::bit_cast<std::int32_t>(ours_[i]) !=
                                  std::bit_cast<std::int32_t>(theirs_[i]));
  if (different == 0 && to.all.any) return; // no error and no distance
  find_errors();
  for (std::size_t i = 0; i < most; ++i) wrong += wrong_[i];
  if (different > 0) to.same_bits = false, add_ulp(sums.ulp);
  to.mismatched += static_cast<std::size_t>(wrong);
  if (is_beyond(to.all) || (wrong > 0 && is_beyond(to.wrong))) add_worst(to);
}

/// Whether an error here is larger than the worst so far.
bool ElementBlock::is_beyond(const ComparedElements::Worst& worst) const {
  const double abs = worst.abs, rel = worst.rel;
  int larger = 0;
  for (std::size_t i = 0; i < most; ++i)
    larger += static_cast<int>(error_[i] > abs) | static_cast<int>(error_[i] > rel * size_[i]);
  return larger > 0 || !worst.any;
}

void ElementBlock::add_worst(ComparedElements& to) const {
  for (std::size_t i = 0; i < n_; ++i) {
    const double a = static_cast<double>(ours_[i]), r = static_cast<double>(theirs_[i]);
    const std::size_t at = some_.first + i * some_.step;
    to.all.add(error_[i], size_[i], a, r, at);
    if (wrong_[i] != 0) to.wrong.add(error_[i], size_[i], a, r, at);
  }
}

/// Equal bits have a distance of 0, and count nowhere.
void ElementBlock::add_ulp(UlpCounts& ulp) const {
  std::array<std::uint32_t, most> distance;
  for (std::size_t i = 0; i < most; ++i) distance[i] = ulp_distance(ours_[i], theirs_[i]);
  std::uint32_t largest = 0;
  std::array<std::uint32_t, UlpCounts::limits.size()> beyond{};
  for (std::size_t i = 0; i < most; ++i) largest = std::max(largest, distance[i]);
  for (std::size_t limit = 0; limit < beyond.size(); ++limit)
    for (std::size_t i = 0; i < most; ++i)
      beyond[limit] += static_cast<std::uint32_t>(
          distance[i] > static_cast<std::uint32_t>(UlpCounts::limits[limit]));
  ulp.largest = std::max(ulp.largest, static_cast<double>(largest));
  for (std::size_t limit = 0; limit < beyond.size(); ++limit) ulp.beyond[limit] += beyond[limit];
}

} // namespace mha
