#pragma once
// Times of a computation.

#include <mha/layer/stage.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace mha {

/// Seconds that were spent on each stage.
using StageSeconds = std::array<double, stage_count>;

/// The phases of a layer's computation: x, q, k, v with their norms and rotations, up to the
/// scores; scores … weights, head_out, head_result; concat W_o + b_o, residual; and what a whole
/// model has around attention: norms, feed-forward, residual sums, final, logits.
enum class Phase : std::uint8_t { projections, attention, output, around };
inline constexpr std::array phases{Phase::projections, Phase::attention, Phase::output,
                                   Phase::around};
constexpr std::string_view name_of_phase(Phase phase) {
  constexpr std::array<std::string_view, phases.size()> names{"projections", "attention", "output",
                                                              "around"};
  return names[static_cast<std::size_t>(phase)];
}

/// A value for each phase.
template <class Value> class ByPhase {
public:
  Value& operator[](Phase phase) { return values_[static_cast<std::size_t>(phase)]; }
  const Value& operator[](Phase phase) const { return values_[static_cast<std::size_t>(phase)]; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

private:
  std::array<Value, phases.size()> values_{};
};

/// The seconds that a computation took, the observer's among them.
struct PhaseTimes {
  ByPhase<double> seconds;
  StageSeconds stages{}; ///< summed over all workers; the softmax's are those of weights
};

} // namespace mha
