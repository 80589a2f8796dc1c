#pragma once
// Mean ablation replaces the output of a part of the model by its mean over many texts. These means
// are accumulated over batches of texts.

#include <mha/load/edit.hpp>
#include <mha/model/run.hpp>

#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace mha {

/// The stages of layer number `n` that are averaged.
using StagesOfLayer = std::function<std::vector<Stage>(const Layer& layer, std::size_t n)>;

/// Means of stages that have a token axis, over the positions of all texts except padding; each
/// head and each column has its own mean. The sums are of type double and follow the order of the
/// texts, so that the result does not depend on how the texts are divided into batches.
class StageMeans {
public:
  /// Runs the model on a batch of texts and adds the values of these stages of each layer.
  void add(const TextLayers& texts, const StagesOfLayer& stages, std::size_t threads);

  /// A tensor of doubles of shape (1, heads, 1, columns), or (1, 1, columns) for a stage without
  /// a head axis. Throws Error for a stage that was not added.
  Tensor mean(std::size_t layer, Stage stage) const;

private:
  struct Sum {
    Shape shape; ///< of the mean
    std::vector<double> sum;
    std::size_t count = 0; ///< of positions
  };
  void add(const Layer& layer, Stage stage, const Tensor& values, Sum& to) const;
  std::map<std::pair<std::size_t, Stage>, Sum> sums_; ///< by number of the layer and stage
};

} // namespace mha
