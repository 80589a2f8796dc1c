#pragma once
// Transformers' `hidden_states`, the residual stream before every layer and behind the last one,
// and `attentions`, every layer's weights.

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
  bool one_layer = false;     ///< whether one layer alone is looked at
  /// Surroundings' (captures.hpp).
  std::optional<Stage> attention_returns, mlp_returns;
};

/// A stage that a hidden state is, of one layer or of the model's ends.
struct HiddenState {
  Stage stage = Stage::resid_pre;
  io::Entry entry;
};

/// Whether an entry holds states of every layer: a stack (L + 1, (B,) T, d_model), or one of a
/// list, `hidden_states.3`; of `attentions`, L of (B,) H, T, T. A name with a layer's number before
/// it
/// (`layers.3.hidden_states`) does not.
bool holds_states(const std::string& name);

/// What the hidden states of a file mean to the layer `id` ("" for the model's ends). State n is
/// what enters layer n; the last one is what the last layer hands on, normed where the model has a
/// last norm (as Transformers gives it: `final`). Of L states, the first or the last is missing:
/// what is nearer to the layer's own numbers; where these say nothing, a list 0 … L − 1 lacks the
/// last and a stack the first. Throws Error for another number of states. Attentions are the
/// weights of their layers.
std::vector<HiddenState> hidden_states_of(const io::Contents& contents, const Layer& layer,
                                          const WholeModelOfLayer& model, const std::string& id);

/// Names the arrays of a list that has no names but numbers by what their shapes say: three axes
/// are a pass's hidden_states, four its attentions, pairs of four the keys and values of a cache.
/// Other files stay as they are. Throws Error for lists of lists, as generate() returns them.
void name_bare_list(io::Contents& contents);

/// What `hidden_states=FILE` or `attentions=FILE` names: those of the file, a list without names,
/// or the one array that it holds.
io::Contents states_named(const io::Source& source);

} // namespace mha
