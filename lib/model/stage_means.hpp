#pragma once
// Means of stages over many texts, which come some at a time: what mean ablation puts in a part's
// place.

#include <mha/load/patch_text.hpp>
#include <mha/model/run.hpp>

#include <map>
#include <utility>
#include <vector>

namespace mha {

/// Stages of a layer, by its number.
using StagesOfLayer = std::function<std::vector<Stage>(const Layer& layer, std::size_t n)>;

/// The mean of token stages over the positions of all texts that are no padding, per head and
/// column, summed in double in the order of texts: how texts are grouped changes no bit.
class StageMeans {
public:
  /// Computes some texts and adds what these stages of each layer hold.
  void add(const TextLayers& texts, const StagesOfLayer& stages, std::size_t threads);

  /// 1, (heads,) 1, columns; in double. Throws Error for a stage that was not added.
  Tensor mean(std::size_t layer, Stage stage) const;

private:
  struct Sum {
    Shape shape; ///< of the mean
    std::vector<double> sum;
    std::size_t count = 0;
  };
  void add(const Layer& layer, Stage stage, const Tensor& values, Sum& to) const;
  std::map<std::pair<std::size_t, Stage>, Sum> sums_;
};

} // namespace mha
