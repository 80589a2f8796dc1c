#pragma once
// Maps made of several heads or layers, as text.

#include "flow.hpp"

#include <mha/tensor/tensor.hpp>

namespace mha::app {

/// The map of a batch item and, where each head has one, of a head.
struct FlowMatrix {
  std::string layer;
  std::optional<std::size_t> batch, head;
  std::vector<std::size_t> rows, cols;             ///< positions that are shown
  std::vector<std::string> row_labels, col_labels; ///< of all positions; empty: none
  Tensor values;                                   ///< f64, rows × cols
};

/// The selected values of one layer, as one array and as maps.
struct FlowOfLayer {
  std::string layer;
  Tensor value;         ///< without the axes of which one index was chosen
  bool batched = false; ///< whether it has an axis of items
  std::vector<std::vector<std::string>> row_tokens, col_tokens; ///< of each item; empty: none
  std::vector<FlowMatrix> matrices;
};

/// The labels at some positions, or the positions where there are none.
std::vector<std::string> labels_at(const std::vector<std::size_t>& positions,
                                   const std::vector<std::string>& labels);
/// "rollout", or "layers.1.rollout" where there are several layers.
std::string item_name(const FlowOfLayer& layer, const FlowInfo& kind, bool several);

/// One number a line, as `show` prints stages.
std::string flow_csv(const std::vector<FlowOfLayer>& layers, const FlowInfo& kind,
                     std::string_view form, const std::optional<std::size_t>& precision);
/// One object, as `show` prints stages.
std::string flow_json(const std::vector<FlowOfLayer>& layers, const FlowInfo& kind,
                      const std::optional<std::size_t>& precision);
/// Titled matrices, whose columns go on below where they do not fit the width.
std::string flow_table(const std::vector<FlowOfLayer>& layers, const FlowInfo& kind,
                       const std::string& title, const render::TextStyle& text_style);

} // namespace mha::app
