#pragma once
// Patches as they are written, PLACE OP VALUE: 'layers.3.head_out[0,-1] *= 0.5' (docs/models.md).

#include <mha/layer/layer.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

/// The layers that stand in front of a place: "layers.3.", "layers.-1.", "layers.0-2.", "layers.*."
struct PlaceLayers {
  bool every_layer = false;                                  ///< layers.*
  std::optional<std::pair<std::size_t, std::size_t>> layers; ///< the first and the last
  std::size_t from_end = 0; ///< 1 of "layers.-1."; 0: counted from the first

  /// Whether the place says which layer it is of.
  bool names_layer() const { return every_layer || layers.has_value() || from_end > 0; }
  bool is_of(std::size_t layer) const {
    return every_layer || (layers && layers->first <= layer && layer <= layers->second);
  }
  /// Counts a layer from the end in a model of `count`. Throws Error where there is none such;
  /// `text` is what was written.
  void count_from_first(std::size_t count, const Message& text);
};

/// What a place's name begins with. Throws Error where it is no layer; `text` is all that was
/// written.
PlaceLayers layers_of_place(std::string_view place, std::string_view text);

/// Throws Error for a stage of the whole model whose name begins with a layer.
void require_of_model(std::string_view name, Stage stage, const PlaceLayers& named);

/// The parts of a written patch.
struct PatchText : PlaceLayers {
  std::string text;  ///< all of it
  std::string place; ///< "layers.3.head_out"
  Stage stage = Stage::output;
  bool prefers_add = false; ///< hook_attn_out, hook_mlp_out: attn_add and mlp_add where there are
  std::vector<std::string> axes; ///< in brackets: heads, tokens, columns
  PatchOp op = PatchOp::set;
  std::string value;
  std::optional<Tensor> tensor; ///< the value, where a program gives it
};

/// The stage that a place means in a layer: what hook_attn_out is depends on the block.
Stage stage_of_place(const PatchText& patch, const Layer& layer);

/// Throws Error that says what is expected where.
PatchText parse_patch(const std::string& text);

/// The values of a stage in another run, batch axis first, and how many tokens each of its texts
/// has; no lengths: as many as this run's.
struct UnpatchedValues {
  Tensor values;
  std::vector<std::size_t> lengths;

  UnpatchedValues(Tensor of_stage, std::vector<std::size_t> of_texts = {})
      : values(std::move(of_stage)), lengths(std::move(of_texts)) {}
};

/// Those of an unpatched run: of this run's texts for `mean`, of the texts that VALUE names for
/// `from …`.
using UnpatchedStage = std::function<UnpatchedValues(Stage stage, const std::string& value)>;

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
