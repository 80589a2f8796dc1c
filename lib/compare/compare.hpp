#pragma once
// Comparison of a stage with the same stage of another implementation, element by element.

#include <mha/compare/reference.hpp>
#include <mha/compare/regions.hpp>
#include <mha/compare/tolerances.hpp>
#include <mha/compare/ulp.hpp>
#include <mha/observe/placement.hpp>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace mha {

/// The result of a comparison. NaN equals NaN, infinities equal themselves; in masked, shifted,
/// row_max and logsumexp −inf equals a finite mask constant (at most −5000: −1e4, −1e9, finfo.min),
/// and two such constants are equal where the layer's own mask adds one.
struct Difference {
  bool same_bits = true; ///< in the coarser of the two types; any NaN equals any other
  bool within = true;    ///< no element disagrees
  /// The least ‖ours − theirs‖ / ‖theirs‖ of a row with elements that disagree.
  float nearest = 0;
  /// The largest |a − r| and |a − r| / |r| of the elements that disagree, or of all if none does.
  /// |r| counts as at least a thousandth of the stage's typical size, so that a number near zero
  /// does not make its error look large. Infinite if only one of a and r is NaN or infinite.
  double max_abs = 0, max_rel = 0;
  std::vector<std::size_t> at; ///< the element of max_abs, in the stage's own axes
  double ours = 0, theirs = 0; ///< the values of that element
  std::size_t mismatched = 0, count = 0;
  double rms = 0;    ///< of the reference's finite elements
  double cosine = 1; ///< of the elements that are finite on both sides; 0 if there are none
  /// In stages with several heads (and concat): the head with the most elements that disagree, and
  /// among equals the one with the largest error.
  std::optional<std::size_t> worst_head;
  /// Distances in the coarser of the two types; a mask's constant is as far from −inf as 0 is.
  UlpCounts ulp;
  Regions regions; ///< where elements disagree
};

/// Compares whole values of the shape layer.shape_of(stage). `stored`: the type that the reference
/// was stored in, by default its tensor's. `allowed`: the error allowed to each number of the
/// reference where that is more than the tolerance (float32, of the reference's shape), or empty.
Difference compare(const Layer& layer, Stage stage, const Tensor& ours, const Tensor& reference,
                   Tolerance tolerance, std::optional<DType> stored = std::nullopt,
                   const Tensor& allowed = {});

/// Whether an error can be rounding at all. Rounding hardly changes a stage's direction, and in
/// float32 it does not move every differing row by 2 % of itself, some hundred thousand units.
bool may_be_rounding(const Difference& found, DType precision);

/// Compares stages while they are computed, so that no whole map is kept in memory. Finds the same
/// numbers as compare(), for any number of threads.
class Comparison : public Observer {
public:
  /// `reference` and `layer` must outlive it.
  explicit Comparison(const Layer& layer) : layer_(layer) {}
  void add(const ReferenceStage& reference, Tolerance tolerance, const Tensor& allowed = {});

  StageSet wants() const override;
  void observe(const Slice& block) override;
  Difference of(Stage stage) const;

  /// The result of one head of one block.
  struct Partial;

private:
  struct Target;
  using Place = std::tuple<Stage, std::size_t, std::size_t, std::size_t>; // stage, b, head, token
  const Layer& layer_;
  std::map<Stage, std::shared_ptr<Target>> targets_;
  std::mutex mutex_;
  std::map<Place, std::shared_ptr<Partial>> parts_;
};

} // namespace mha
