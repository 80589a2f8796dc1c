#pragma once
// Activation patching: each place of a run in turn gets what the same place holds in another run,
// and what follows is computed again (Meng et al. 2022, causal tracing).

#include <mha/load/edit.hpp>
#include <mha/model/run.hpp>
#include <mha/model/token_of_texts.hpp>
#include <mha/observe/prediction_rows.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// An axis along which places are patched one by one; along the others they are patched whole.
enum class SweepAxis : std::uint8_t {
  layer,
  head,  ///< key/value heads of k and v
  query, ///< positions: rows of any stage
  key,   ///< columns of maps
};
std::string_view name_of(SweepAxis axis);

/// The metric M of a run.
enum class SweepMetric : std::uint8_t {
  logit, ///< of the answer, less that of the other token
  loss,  ///< −log p of the text's next token
  kl,    ///< D(this run ‖ the patched one)
};

struct SweepRequest {
  std::vector<StagePlace> stages; ///< places without a layer ("resid_pre", "hook_attn_out")
  std::vector<SweepAxis> over;
  SweepMetric metric = SweepMetric::logit;
  bool raw = false; ///< a point's value is M(patched) itself, not normalised by the two runs' M
  /// For SweepMetric::logit, by pairs; none: the most probable tokens of the other run and of this.
  TokenOfTexts answer, versus;
  /// The positions of a text whose predictions are measured.
  std::function<std::vector<TextPosition>(const Texts& text)> places;
  std::size_t threads = 0;
};

/// One place, and what the metric M is when it is patched.
struct SweepPoint {
  std::size_t stage = 0; ///< of the request's
  std::optional<std::size_t> layer, head, query, key;
  /// m = (M(patched) − M(this)) / (M(other) − M(this)): 0 where nothing changed, 1 where the other
  /// run's prediction came back; M(patched) where it is raw. The mean over pairs of texts.
  double value = 0;
  std::optional<double> spread; ///< standard deviation over pairs, of several
};

/// The index of a point along an axis; nothing where the axis is patched whole.
std::optional<std::size_t> index_along(const SweepPoint& point, SweepAxis axis);

struct SweepResult {
  std::vector<SweepPoint> points; ///< in the order of stages, layers, heads, queries, keys
  double here = 0, there = 0;     ///< M of this run and the other, the means over pairs
  std::size_t pairs = 0;
  std::vector<std::size_t> without_difference; ///< pairs left out: both runs have the same M
};

/// Two runs of one model: what is patched, and where the values come from.
struct SweepPair {
  std::shared_ptr<const TextLayers> here, there;
};

/// The number of runs of a sweep, and the whole passes that their layers add up to.
struct SweepCost {
  std::size_t runs = 0;
  double passes = 0;
};
SweepCost cost_of(const SweepPair& pair, const SweepRequest& request);

/// Throws Error where a stage has no such axis or cannot be patched, texts of a pair differ in
/// length, and where the two runs measure the same.
SweepResult sweep(const std::vector<SweepPair>& pairs, const SweepRequest& request);

} // namespace mha
