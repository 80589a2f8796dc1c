#pragma once
// One stage against the same stage of another implementation, element by element.

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

/// What a comparison finds. NaN equals NaN, infinities equal themselves; in masked, shifted,
/// row_max and logsumexp −inf equals a finite mask constant (at most −5000: −1e4, −1e9, finfo.min),
/// and two such constants are equal where the layer's own mask adds one.
struct Difference {
  bool same_bits = true; ///< in the coarser of the two types; any NaN is any other
  bool within = true;    ///< no element disagrees
  /// |ours − theirs| in |theirs|, of the row with elements that disagree where that is least.
  float nearest = 0;
  /// The largest |a − r| and |a − r| / |r|, of the elements that disagree; where none does, of all.
  /// |r| counts as a thousandth of what is typical of the stage at least, so that a number near
  /// zero makes no error look large. Infinite where only one of them is NaN or infinite.
  double max_abs = 0, max_rel = 0;
  std::vector<std::size_t> at; ///< the element of max_abs, in the stage's own axes
  double ours = 0, theirs = 0; ///< its values
  std::size_t mismatched = 0, count = 0;
  double rms = 0;    ///< of the reference's finite elements
  double cosine = 1; ///< of the elements that are finite on both sides; 0 where there is none
  /// Of stages with several (concat's widths too): the one with the most elements that disagree; of
  /// as many, with the largest error.
  std::optional<std::size_t> worst_head;
  /// Of every element, in the coarser of the two types; a mask's constant is as far from −inf as 0.
  UlpCounts ulp;
  Regions regions; ///< of the elements that disagree
};

/// Compares whole values of the shape layer.shape_of(stage). `stored`: the type that the reference
/// was stored in; default: its tensor's. `allowed`: what each number of the reference may be off by
/// where that is more than the tolerance, float32 and of its shape; empty: nothing.
Difference compare(const Layer& layer, Stage stage, const Tensor& ours, const Tensor& reference,
                   Tolerance tolerance, std::optional<DType> stored = std::nullopt,
                   const Tensor& allowed = {});

/// Whether an error can be rounding at all. What rounding spoils still points where it did; nor
/// does it move each row that differs by 2 % of itself, some hundred thousand units, where that is
/// done in float32.
bool may_be_rounding(const Difference& found, DType precision);

/// Compares stages while they are computed, so that maps are not held. The same numbers as compare,
/// whatever the threads.
class Comparison : public Observer {
public:
  /// `reference` and `layer` must outlive it.
  explicit Comparison(const Layer& layer) : layer_(layer) {}
  void add(const ReferenceStage& reference, Tolerance tolerance, const Tensor& allowed = {});

  StageSet wants() const override;
  void observe(const Slice& block) override;
  Difference of(Stage stage) const;

  /// What one head of one block comes to.
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
