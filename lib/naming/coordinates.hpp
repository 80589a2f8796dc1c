#pragma once
// Places of elements of stages: what each index counts, and the token there.

#include <mha/layer/layer.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// One index of an element.
struct Coordinate {
  std::string_view word; ///< "batch", "head", "key/value head", "query", "key", "dimension"
  std::size_t index = 0;
  std::optional<std::string> token = {}; ///< the label of a query or key that has one
};

/// What the indexes of an element of a stage, in the axes that users see, mean in this layer.
std::vector<Coordinate> coordinates_of(const Layer& layer, Stage stage,
                                       const std::vector<std::size_t>& at);

} // namespace mha
