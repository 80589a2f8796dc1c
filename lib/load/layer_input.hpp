#pragma once
// The input that a whole model's layer gets from texts (model/texts.hpp) instead of a file.

#include <mha/layer/layer.hpp>
#include <mha/system/note.hpp>

#include <memory>
#include <string>
#include <vector>

namespace mha {

/// Keys and values of earlier tokens as a layer's queries see them: B, H_kv, tokens, d.
struct LayerPast {
  Tensor k, v;
};

/// The input of one layer.
struct LayerInput {
  Tensor X;       ///< (B,) T, d_model: the residual stream before the layer
  LayerPast past; ///< of earlier tokens of the texts; empty: there are none
  /// k_rope and v_norm, (B,) H_kv, T, d, of a layer that takes another one's; else empty.
  LayerPast shared;
  std::string shared_source; ///< for messages: "the keys of layer 2"
  std::shared_ptr<const TransformerBlock> block;
  std::vector<std::string> labels;                   ///< of the tokens; empty: none
  std::vector<std::vector<std::string>> item_labels; ///< of several texts: those of each
  std::vector<std::size_t> lengths;  ///< of each text without padding; empty: there is none
  std::vector<Note> notes;           ///< what the user should know about the text and the model
  std::string source;                ///< for messages: "--text"
  std::shared_ptr<KeptWeights> kept; ///< the packed weights of all passes
};

/// A "layer" that has the model's own stages alone: embed, final, logits.
Layer layer_of_ends(const LayerInput& input, std::shared_ptr<const ModelEnds> ends);

} // namespace mha
