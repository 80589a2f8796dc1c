#pragma once
// Transformers' `hidden_states`, the residual stream before every layer and after the last one, and
// `attentions`, every layer's weights.

#include <mha/files/contents.hpp>
#include <mha/layer/layer.hpp>
#include <mha/load/source.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha {

/// The whole model that a layer is compared in.
struct WholeModelOfLayer {
  std::size_t layers = 0;
  bool last_norm = false;     ///< whether the model norms the last layer's stream
  bool bare_embedding = true; ///< whether embed is the tokens' rows, to which nothing is added
  bool one_layer = false;     ///< whether only one layer is compared
  /// As in Surroundings (captures.hpp).
  std::optional<Stage> attention_returns, mlp_returns;
};

/// A hidden state as a stage of one layer, or of the model's ends.
struct HiddenState {
  Stage stage = Stage::resid_pre;
  io::Entry entry;
};

/// Whether an entry holds states of every layer: a stack (L + 1, (B,) T, d_model), or an item of a
/// list, `hidden_states.3`; `attentions` has L maps ((B,) H, T, T). A name that begins with a
/// layer's number (`layers.3.hidden_states`) does not.
bool holds_states(const std::string& name);

/// The hidden states of a file as stages of the layer `id` ("" for the model's ends). State n
/// enters layer n. The last state is the last layer's output, normed if the model has a last norm:
/// Transformers returns it so, and it is `final`. If there are only L states, the first or the last
/// is missing; the reading nearer to the layer's own numbers is taken. Where the numbers do not
/// decide, a list 0 … L − 1 lacks the last state, and a stack the first. Throws Error for another
/// number of states. Attentions are the weights of their layers.
std::vector<HiddenState> hidden_states_of(const io::Contents& contents, const Layer& layer,
                                          const WholeModelOfLayer& model, const std::string& id);

/// Names the arrays of an unnamed list by their shapes: arrays of three axes are a pass's
/// hidden_states, those of four its attentions, and pairs of four axes the keys and values of a
/// cache. Leaves other files unchanged. Throws Error for lists of lists, as generate() returns
/// them.
void name_bare_list(io::Contents& contents);

/// The tensors that `hidden_states=FILE` or `attentions=FILE` binds: those of that name in the
/// file, an unnamed list, or the file's only array.
io::Contents states_named(const io::Source& source);

} // namespace mha
