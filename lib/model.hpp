#pragma once
// A whole model for programs, opened once and run many times. docs/library.md is the guide.

#include <mha/system/export.hpp>

#include <mha/layer/layer.hpp>
#include <mha/patch.hpp>
#include <mha/schedule/place.hpp>
#include <mha/shared.hpp>
#include <mha/system/note.hpp>
#include <mha/values.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

class Model;

/// A model's token numbers for one text, or for a batch of texts of any lengths.
class MHA_API Tokens {
public:
  /// The number of texts.
  std::size_t count() const;
  /// Whether they are a batch, whose results have a batch axis.
  bool batched() const;
  /// The number of tokens in a text.
  std::size_t length(std::size_t text = 0) const { return ids(text).size(); }
  ///@{
  /// The token numbers of a text. Throws Error for an index out of range.
  const std::vector<int>& ids(std::size_t text = 0) const&;
  std::vector<int> ids(std::size_t text = 0) && { return std::as_const(*this).ids(text); }
  ///@}
  /// The text of each token (" sun") in UTF-8, or its number if the model has no tokenizer.
  std::vector<std::string> pieces(std::size_t text = 0) const;
  ///@{
  /// Notes on the texts: invalid UTF-8 was replaced …
  const std::vector<Note>& notes() const&;
  std::vector<Note> notes() && { return std::as_const(*this).notes(); }
  ///@}

  /// The library's internal state.
  struct State;
  explicit Tokens(std::shared_ptr<const State> state)
      : state_(std::move(state)) {} ///< for the library
  /// For the library.
  const std::shared_ptr<const State>& state() const { return state_.get(); }

private:
  Shared<const State> state_;
};

/// Options of a run: how it is computed and what it keeps.
struct RunOptions {
  /// Stages by name: "layers.3.weights", "layers.-1.weights" of the last layer, "layers.0-2.q",
  /// "layers.*.weights" or bare "weights" of every layer, "layers.3.*", "embed", "final",
  /// "logits"; "*" is all. Other tools' names also work ("blocks.0.attn.hook_pattern").
  std::vector<std::string> keep = {};
  /// Applied in order.
  std::vector<Patch> patches = {};
  /// Whether to keep the streams between layers, so that with() starts at the first patched layer.
  bool streams = true;
  std::size_t threads = 0; ///< 0: as many as speed up the computation
  /// Called with the finished share, 0 to 1, between layers. An exception from it stops the run.
  std::function<void(double)> progress = {};
  /// If a stop is requested, the run throws Error before the next layer.
  std::stop_token stop = {};
};

/// A token that a model predicts.
struct Predicted {
  ///@{
  /// Its number, text, logit and probability.
  int id = 0;
  std::string piece;
  double logit = 0, probability = 0;
  ///@}
};

/// A model's run over texts. Tensors share its memory and outlive it; it shares ownership of its
/// model. Copies share everything.
class MHA_API Run {
public:
  /// The texts.
  Tokens tokens() const;
  /// The names of the kept stages, in the order of the computation: "layers.0.weights".
  std::vector<std::string> kept() const;
  ///@{
  /// Whether tensor() returns a stage for this name, which must contain the layer if several layers
  /// were kept. Throws Error for a name that is not a stage's.
  bool has(std::string_view name) const;
  bool has(TwoNames names) const = delete;
  ///@}
  ///@{
  /// A kept stage: "layers.3.weights", or "weights" if only one layer's was kept; "logits". Its
  /// shape is that in docs/stages.md, with a leading batch axis for a batch. Throws Error for a
  /// stage that was not kept.
  Tensor tensor(std::string_view name) const;
  Tensor tensor(const At& at) const;
  Tensor tensor(TwoNames names) const = delete;
  ///@}
  ///@{
  /// The same as an expression of xtensor, with <mha/xtensor.hpp>; get<double, 3> has three axes in
  /// its type. Nothing is converted: also throws Error if the run is not in T or the stage does not
  /// have N axes.
  template <class T, std::size_t N = any_rank> Values<T, N> get(std::string_view name) const;
  template <class T, std::size_t N = any_rank> Values<T, N> get(TwoNames names) const = delete;
  template <std::same_as<float> T = float> Values<T> operator[](std::string_view name) const {
    return get<T>(name);
  }
  ///@}
  /// The residual stream before a layer, or after the last one if `layer` is the number of layers
  /// or -1. (B,) T, d_model. Throws Error if streams are not kept.
  template <WholeNumber I> Tensor resid(I layer) const { return resid_before(position_of(layer)); }

  /// The logits, (B,) T, vocabulary. Computed at the first call if they were not kept. Throws Error
  /// for a model without a head, or if streams are not kept.
  Tensor logits() const;
  /// For each text, −log p of the next token at each position but the last, in nats. Throws Error
  /// as logits() does, and for a model that does not predict the next token. Kept logits are
  /// sufficient.
  std::vector<std::vector<double>> losses() const;
  /// The mean loss over all positions of all texts. Throws Error if no position has a next token.
  double loss() const;
  /// The most probable tokens after a position of a text (negative: from its end).
  std::vector<Predicted> predictions(std::int64_t position = -1, std::size_t top = 10,
                                     std::size_t text = 0) const;

  ///@{
  /// A measure of each head's weights or result by its name in docs/stats.md ("entropy",
  /// "previous", "result_norm"): layers × heads in float64, NaN where undefined. Measures that
  /// compare tokens ("induction") need the tokenizer. Of the options, only threads, progress and
  /// stop apply. Throws Error for an unknown name, and if streams are not kept.
  Tensor heads(std::string_view measure, const RunOptions& options = {}) const;
  Tensor heads(TwoNames measures, const RunOptions& options = {}) const = delete;
  ///@}
  ///@{
  /// The effect of replacing each head by zero on the predictions at some positions of each text
  /// (negative: from its end): "kl"; "loss_change" and "logit_change" (of the most probable token),
  /// the value without the head minus that with it; or "direct", the head's own contribution to
  /// that logit (docs/models.md). Layers × heads in float64, the mean over the positions; NaN where
  /// undefined. Options as for heads(). Throws Error for a run with patches, and for loss_change if
  /// no position has a next token (-1).
  Tensor effects(std::string_view column = "kl", const Indexes& positions = -1,
                 const RunOptions& options = {}) const;
  Tensor effects(TwoNames columns, const Indexes& positions = -1,
                 const RunOptions& options = {}) const = delete;
  ///@}

  /// The same run with further patches, applied after its own. Only layers from the first patched
  /// one on are computed again. `options.patches` must be empty.
  Run with(std::vector<Patch> patches, const RunOptions& options = {}) const;

  ///@{
  /// Notes on the model, the texts and the numbers.
  const std::vector<Note>& notes() const&;
  std::vector<Note> notes() && { return std::as_const(*this).notes(); }
  ///@}

  /// The library's internal state.
  struct State;
  explicit Run(std::shared_ptr<const State> state)
      : state_(std::move(state)) {} ///< for the library
  /// For the library.
  const std::shared_ptr<const State>& state() const { return state_.get(); }

private:
  Tensor resid_before(std::int64_t layer) const;

  Shared<const State> state_;
};

/// Options for opening a model.
struct ModelOptions {
  /// Settings of every layer as text, ("rope_base", "5e5"), which override those in files.
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// float32 or float64; default: float32, or float64 for float64 weights.
  std::optional<DType> dtype = {};
  /// The maximum bytes of packed weights kept between runs; default: half of the free memory.
  std::optional<std::size_t> memory = {};
  /// The name of a family, or the file of a description (docs/describing.md); "": detected.
  std::string naming = {};
};

/// A whole model from a checkpoint: a folder with its config.json, or a file with the same
/// information (GGUF). Opening reads only headers; weights are read when first needed, and kept for
/// later runs. Copies share everything; all functions may be called from several threads at once.
class MHA_API Model {
public:
  /// Throws Error if there is no model, or if it is not supported.
  explicit Model(std::string folder, ModelOptions options = {});

  /// The folder from which it was opened.
  std::string folder() const;
  /// The number of layers.
  std::size_t layers() const;
  /// The sizes of a layer: H, H_kv, d_model, d_k, d_v, d_ff, vocabulary; B = 1, T = S = 1.
  Dims dims(const LayerId& layer = 0) const;
  /// The precision of its runs.
  DType dtype() const;
  /// Notes on the model.
  std::vector<Note> notes() const;

  ///@{
  /// One text, split by the model's tokenizer (with the special tokens that it adds), or given as
  /// token numbers of any integral type.
  Tokens tokens(std::string_view text) const;
  Tokens tokens(std::nullptr_t) const = delete;
  Tokens tokens(const std::vector<int>& ids) const;
  Tokens tokens(std::initializer_list<int> ids) const { return tokens(std::vector<int>(ids)); }
  template <WholeNumber I> Tokens tokens(const std::vector<I>& ids) const {
    std::vector<int> numbers;
    for (const I id : ids) {
      const std::int64_t number_of_token = position_of(id);
      if (number_of_token < 0 || number_of_token > std::numeric_limits<int>::max())
        fail("ids: {} is not a token", id);
      numbers.push_back(static_cast<int>(number_of_token));
    }
    return tokens(numbers);
  }
  ///@}
  ///@{
  /// Several texts of any lengths as a batch.
  Tokens batch(const std::vector<std::string>& texts) const;
  Tokens batch(std::initializer_list<const char*> texts) const;
  Tokens batch(const std::vector<std::vector<int>>& ids) const;
  Tokens batch(std::initializer_list<std::vector<int>> ids) const;
  Tokens batch(std::initializer_list<std::initializer_list<int>> ids) const;
  template <std::convertible_to<std::string_view> Text>
  Tokens batch(std::initializer_list<std::initializer_list<Text>> texts) const = delete;
  ///@}
  /// The text of token numbers. Throws Error for a number that is not a token of the model.
  std::string text(const std::vector<int>& ids) const;

  /// Runs the model over texts. Throws Error before the computation if the stages to keep would not
  /// fit into memory, for stages that do not exist, and for patches that do not fit or have no
  /// effect.
  Run run(const Tokens& tokens, const RunOptions& options = {}) const;
  /// Runs without keeping stages, and passes their rows to `use` during the computation, in the
  /// order of layers, stages, texts, heads and tokens; at most 256 tokens of one head. One call at
  /// a time, from threads of the library; rows may be kept. An exception from `use` stops the run
  /// and is rethrown. `options.keep` must be empty.
  void stream(const Tokens& tokens, const std::vector<std::string>& stages,
              const std::function<void(const At& at, Place place, Tensor rows)>& use,
              const RunOptions& options = {}) const;

  ///@{
  /// A single layer: its weights and settings, without an input or with the input that texts give
  /// it. Of the options, only threads, progress and stop apply.
  Layer layer(const LayerId& layer) const;
  Layer layer(const LayerId& layer, const Tokens& tokens, const RunOptions& options = {}) const;
  ///@}
  ///@{
  /// A weight as used in products, in the model's precision: "layers.3.W_q", (in, out);
  /// "layers.-1.mlp.out" of the last layer; "W_E" (vocabulary, d_model) without the factor of
  /// embed, "W_pos", "final_norm.weight" as stored, "W_U" (d_model, vocabulary), "b_U". Fused
  /// weights are accessed by their parts. Throws Error if the model has no such weight.
  Tensor weight(std::string_view name) const;
  Tensor weight(TwoNames names) const = delete;
  ///@}
  /// A new model with another weight of attention of the same shape. This model is unchanged.
  Model with(std::string_view name, Tensor weight) const;

  /// The library's internal state.
  struct State;
  explicit Model(std::shared_ptr<State> state) : state_(std::move(state)) {} ///< for the library
  /// For the library.
  const std::shared_ptr<State>& state() const { return state_.get(); }

private:
  Shared<State> state_;
};

} // namespace mha
