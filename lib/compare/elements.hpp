#pragma once
// Comparison of two rows of numbers, element by element. Private to compare.cpp.

#include <mha/compare/compare.hpp>
#include <mha/compare/ulp.hpp>
#include <mha/tensor/not_saved.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace mha {

/// Scores end far above this, mask constants far below.
inline bool is_mask(double value) {
  constexpr double mask_constant = -5000;
  return value <= mask_constant; // includes −inf
}

/// The comparison of some elements.
struct ComparedElements {
  /// The largest error, and its place.
  struct Worst {
    double abs = 0, rel = 0, ours = 0, theirs = 0;
    std::size_t index = 0; ///< in the reference's memory
    bool any = false;

    /// `size`: the number that the error is relative to.
    void add(double error, double size, double a, double r, std::size_t at) {
      if (!any || error > abs) abs = error, ours = a, theirs = r, index = at;
      if (error > rel * size) rel = error / size;
      any = true;
    }
    void add(const Worst& other) {
      if (!other.any) return;
      if (!any || other.abs > abs)
        abs = other.abs, ours = other.ours, theirs = other.theirs, index = other.index;
      rel = std::max(rel, other.rel);
      any = true;
    }
  };

  bool same_bits = true;
  std::size_t count = 0, mismatched = 0;
  Worst all, wrong; ///< of all elements, of those that disagree
  UlpCounts ulp;
  double dot = 0, aa = 0, rr = 0;
  std::size_t finite = 0;
  /// The least ‖a − r‖² / ‖r‖² of a row with elements that disagree.
  double nearest = std::numeric_limits<double>::infinity();

  void add(const ComparedElements& other) {
    same_bits = same_bits && other.same_bits;
    count += other.count, mismatched += other.mismatched;
    all.add(other.all), wrong.add(other.wrong), ulp.add(other.ulp);
    dot += other.dot, aa += other.aa, rr += other.rr, finite += other.finite;
    nearest = std::min(nearest, other.nearest);
  }
};

/// A row's elements on both sides.
template <class A, class R> struct Elements {
  const A* ours;
  std::ptrdiff_t our_step;
  const R* theirs;      ///< the whole tensor
  const float* allowed; ///< the whole tensor, or null: only the tolerance is allowed
  std::size_t first, step, count;

  /// `n` elements from `begin` on.
  Elements part(std::size_t begin, std::size_t n) const {
    return {ours + static_cast<std::ptrdiff_t>(begin) * our_step,
            our_step,
            theirs,
            allowed,
            first + begin * step,
            step,
            n};
  }
};

/// How two elements are judged.
struct Judge {
  Tolerance tolerance;
  DType bits = DType::f32; ///< the coarser type
  double small = 0;        ///< smaller numbers are near zero
  bool masks = false;      ///< the stage holds −inf or a mask's constant
};

/// Sums over a row, added in the order of its elements.
struct ComparedRow {
  double dot = 0, aa = 0, rr = 0;
  UlpCounts ulp;
};

/// A short block of float32 numbers on both sides.
class ElementBlock {
public:
  static constexpr std::size_t most = 16;

  ElementBlock(const Elements<float, float>& some, const Judge& by);
  /// Whether all numbers are finite and none is a mask's constant.
  bool is_plain() const { return plain_; }
  /// Compares plain numbers, with the results of compare_one_by_one.
  void compare(ComparedRow& sums, ComparedElements& to);

private:
  void find_errors();
  bool is_beyond(const ComparedElements::Worst& worst) const;
  void add_worst(ComparedElements& to) const;
  void add_ulp(UlpCounts& ulp) const;

  const Elements<float, float>& some_;
  const Judge& by_;
  const std::size_t n_;
  bool plain_ = true;
  std::array<float, most> ours_, theirs_;
  std::array<double, most> error_, size_; ///< |a − r|, and the number it is relative to
  std::array<int, most> wrong_;
};

/// Whether both are the same number in a type.
bool same_bits(double a, double r, DType dtype);

/// Compares elements one by one; both_masked(i) is whether the layer masks element i.
template <class A, class R, class Masked>
void compare_one_by_one(const Elements<A, R>& some, const Judge& by, const Masked& both_masked,
                        ComparedRow& sums, ComparedElements& to) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool single = std::is_same_v<A, float> && std::is_same_v<R, float> && by.bits == DType::f32;
  for (std::size_t i = 0; i < some.count; ++i) {
    const std::size_t at = some.first + i * some.step;
    const double a = static_cast<double>(some.ours[static_cast<std::ptrdiff_t>(i) * some.our_step]),
                 r = static_cast<double>(some.theirs[at]);
    if (is_not_saved(r)) continue;
    ++to.count;
    if (to.same_bits && !same_bits(a, r, by.bits)) to.same_bits = false;
    const bool finite = std::isfinite(a) && std::isfinite(r);
    if (by.masks && is_mask(a) && is_mask(r) && a != r && (!finite || both_masked(i))) {
      to.all.add(0, 0, a, r, at);
      continue;
    }
    double error = 0, size = 0;
    if (finite) {
      sums.dot += a * r, sums.aa += a * a, sums.rr += r * r, ++to.finite;
      error = std::abs(a - r), size = std::max(std::abs(r), by.small);
      if (single)
        sums.ulp.add(ulp_distance(static_cast<float>(a), static_cast<float>(r)));
      else
        sums.ulp.add(ulp_distance(a, r, by.bits));
    } else if (a != r && !(std::isnan(a) && std::isnan(r))) {
      error = infinity;
      sums.ulp.add(ulp_distance(a, r, by.bits));
    }
    to.all.add(error, size, a, r, at);
    const double allowed = by.tolerance.absolute + by.tolerance.relative * std::abs(r);
    if (error == 0 || (finite && error <= allowed)) continue;
    if (some.allowed && error <= static_cast<double>(some.allowed[at])) continue;
    ++to.mismatched;
    to.wrong.add(error, size, a, r, at);
  }
}

/// Compares a row. Most rows are plain float32 numbers, which are compared in blocks.
template <class A, class R, class Masked>
void compare_elements(const Elements<A, R>& some, const Judge& by, const Masked& both_masked,
                      ComparedElements& to) {
  ComparedRow sums;
  const std::size_t wrong = to.mismatched;
  if constexpr (std::is_same_v<A, float> && std::is_same_v<R, float>) {
    for (std::size_t begin = 0; by.bits == DType::f32 && begin < some.count;
         begin += ElementBlock::most) {
      const Elements<A, R> part =
          some.part(begin, std::min(ElementBlock::most, some.count - begin));
      ElementBlock block(part, by);
      if (block.is_plain())
        block.compare(sums, to);
      else
        compare_one_by_one(
            part, by, [&](std::size_t i) { return both_masked(begin + i); }, sums, to);
    }
  }
  if (!std::is_same_v<A, float> || !std::is_same_v<R, float> || by.bits != DType::f32)
    compare_one_by_one(some, by, both_masked, sums, to);
  to.dot += sums.dot, to.aa += sums.aa, to.rr += sums.rr, to.ulp.add(sums.ulp);
  if (to.mismatched == wrong) return;
  const double apart = sums.aa + sums.rr - 2 * sums.dot;
  to.nearest = std::min(to.nearest, sums.rr > 0 ? apart / sums.rr : 0);
}

} // namespace mha
