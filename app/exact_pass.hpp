#pragma once
// A model's pass in float64, beside the one that is looked at.

#include "options.hpp"
#include <mha/model/opened_model.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mha::app {

/// The same computation in float64, made when a stage of it is asked for: how far ours is from it
/// is what rounding does.
class ExactPass {
public:
  explicit ExactPass(const RunRequest& request) : request_(request) {}

  /// Stages of the layer `id`, those of the wanted that can be computed.
  std::map<Stage, Tensor> stages(const std::string& id, const std::vector<Stage>& wanted,
                                 std::size_t threads);

private:
  RunRequest request_;
  std::optional<OpenedModel> model_;
};

} // namespace mha::app
