#pragma once
// Direct effects on one logit: each part's addition to the stream, through the last norm
// with the statistics of the clean run, times the answer's column of the unembedding. (Elhage et
// al. 2021, "A Mathematical Framework for Transformer Circuits": the logit is linear in the parts
// once the norms are frozen.)

#include <mha/layer/layer.hpp>
#include <mha/model/effects.hpp>
#include <mha/model/frozen_norm.hpp>
#include <mha/model/weighted_experts.hpp>

#include <functional>
#include <optional>
#include <vector>

namespace mha {

class DirectEffects {
public:
  /// `ends` has the clean run's last stream; `answer(i)`: the token followed at place i.
  DirectEffects(const Layer& ends, const EffectsRequest& request,
                const std::function<std::size_t(std::size_t)>& answer);

  /// Whether the logit is a sum over parts. It is not in blocks that normalise the sum, or with a
  /// head that has layers of its own.
  bool known() const { return known_; }
  /// Computes the parts of a layer, given with its clean stream, for of(); and of its experts,
  /// where their choice is not null.
  void enter(const Layer& layer, const ChosenByTokens* choice = nullptr);
  /// `index`: of a head, or of an expert.
  std::optional<double> of(Component part, std::optional<std::size_t> index,
                           std::size_t place) const;

private:
  void enter_experts(const Layer& layer, const ChosenByTokens& choice);
  static void fold_last_norm(const DoubleRow& stream, const Norm& norm, DoubleRow& u);
  /// ⟨part, u⟩ with the direction u_ of a place: the part's direct effect.
  double dot_with_direction(const DoubleRow& part, std::size_t place) const;

  const EffectsRequest& request_;
  bool known_ = false;
  std::vector<DoubleRow> u_; ///< by place: the direction that parts are multiplied with
  std::vector<double> final_bias_, lm_head_bias_;
  // Of the layer that was entered, at each place:
  std::vector<std::vector<DoubleRow>> heads_, experts_; ///< of an expert that is not chosen: none
  std::vector<DoubleRow> bias_, mlp_, layer_add_, layer_input_;
};

} // namespace mha
