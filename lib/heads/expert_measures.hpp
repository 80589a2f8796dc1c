#pragma once
// Measures of a mixture's experts: how often and for which tokens a router chooses them.

#include <mha/layer/select.hpp>
#include <mha/observe/compute.hpp>

#include <string>
#include <vector>

namespace mha {

/// One expert of a layer, over the chosen tokens of all texts.
struct ExpertMeasures {
  std::size_t expert = 0;
  std::size_t tokens = 0; ///< that choose it
  double load = 0;        ///< their share of all tokens; n / E where experts are chosen equally
  double share = 0;       ///< its share of all weights
  double weight = 0;      ///< mean weight where it is chosen; 0: it never is
  double score = 0;       ///< mean of its router_scores over all tokens
  /// The tokens whose weights for it have the largest sums, by their text, the largest first.
  std::vector<std::string> top_tokens;
};

/// The experts of a layer, and how decided its router is.
struct LayerExperts {
  std::vector<ExpertMeasures> experts;
  /// Mean entropy of router_scores divided by their sum (softmax(router) where scores are logits),
  /// in bits: 0 for one expert alone, log₂ E for all alike.
  double router_entropy = 0;
  std::size_t tokens = 0;
};

/// The measures of a layer's experts. Throws Error for a layer without a mixture.
LayerExperts measure_experts(const Layer& layer, const Selection& selection, const ComputeLayer& by,
                             std::size_t threads);

} // namespace mha
