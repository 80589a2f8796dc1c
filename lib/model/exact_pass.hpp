#pragma once
// A model's pass in float64, beside the one that is looked at.

#include <mha/model/opened_model.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// The same computation in float64, made when a stage of it is asked for: how far ours is from it
/// is what rounding does.
class ExactPass {
public:
  /// `open` opens the same files and texts in float64.
  explicit ExactPass(std::function<OpenedModel()> open) : open_(std::move(open)) {}

  /// Stages of the layer `id`, those of the wanted that can be computed.
  std::map<Stage, Tensor> stages(const std::string& id, const std::vector<Stage>& wanted,
                                 std::size_t threads);

private:
  std::function<OpenedModel()> open_;
  std::optional<OpenedModel> model_;
};

} // namespace mha
