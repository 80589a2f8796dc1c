#pragma once
// Patches as they are written, PLACE OP VALUE: 'layers.3.head_out[0,-1] *= 0.5' (docs/models.md).

#include <mha/layer/layer.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// The parts of a written patch.
struct PatchText {
  std::string text;  ///< all of it
  std::string place; ///< "layers.3.head_out"
  Stage stage = Stage::output;
  bool prefers_add = false; ///< hook_attn_out, hook_mlp_out: attn_add and mlp_add where there are
  bool every_layer = false; ///< layers.*
  std::optional<std::pair<std::size_t, std::size_t>> layers; ///< the first and the last
  std::vector<std::string> axes; ///< in brackets: heads, tokens, columns
  PatchOp op = PatchOp::set;
  std::string value;
  std::optional<Tensor> tensor; ///< the value, where a program gives it

  /// Whether it says which layer it is of.
  bool names_layer() const { return every_layer || layers.has_value(); }
  bool is_of(std::size_t layer) const {
    return every_layer || (layers && layers->first <= layer && layer <= layers->second);
  }
};

/// Throws Error that says what is expected where.
PatchText parse_patch(const std::string& text);

/// The values of a stage in an unpatched run, batch axis first: of this run's texts for `mean`, of
/// the texts that VALUE names for `from …`.
using UnpatchedStage = std::function<Tensor(Stage stage, const std::string& value)>;

/// The rows of a place: its heads (0 without heads), and its tokens in each batch item.
struct PatchRows {
  std::vector<std::size_t> heads;
  std::vector<std::vector<std::size_t>> tokens;
};
/// Throws Error where the layer has no such place.
PatchRows rows_of_place(const PatchText& patch, const Layer& layer);

/// The patch on a layer: positions on its axes, its value in the layer's precision. `number`: of
/// the layer, for files with an axis of layers. Throws Error where a place or a value does not fit.
StagePatch resolve_patch(const PatchText& patch, const Layer& layer, std::size_t number,
                         const UnpatchedStage& unpatched);

} // namespace mha
