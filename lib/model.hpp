#pragma once
// A whole model for programs: opened once, run many times. docs/library.md is the guide.

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

/// One text, or a batch of texts each of its own length, as a model's token numbers.
class MHA_API Tokens {
public:
  /// How many texts there are.
  std::size_t count() const;
  /// Whether they are a batch: results then have the batch axis.
  bool batched() const;
  /// How many tokens a text has.
  std::size_t length(std::size_t text = 0) const { return ids(text).size(); }
  ///@{
  /// The numbers of a text's tokens. Throws Error for a text that there is not.
  const std::vector<int>& ids(std::size_t text = 0) const&;
  std::vector<int> ids(std::size_t text = 0) && { return std::as_const(*this).ids(text); }
  ///@}
  /// What each token stands for in the text (" sun"), in UTF-8; its number where the model has no
  /// tokenizer.
  std::vector<std::string> pieces(std::size_t text = 0) const;
  ///@{
  /// What is to be known about the texts: invalid UTF-8 was replaced …
  const std::vector<Note>& notes() const&;
  std::vector<Note> notes() && { return std::as_const(*this).notes(); }
  ///@}

  /// What the library fills it from.
  struct State;
  explicit Tokens(std::shared_ptr<const State> state)
      : state_(std::move(state)) {} ///< the library's
  /// The library's.
  const std::shared_ptr<const State>& state() const { return state_.get(); }

private:
  Shared<const State> state_;
};

/// How a run is computed and what is kept of it.
struct RunOptions {
  /// Stages by name: "layers.3.weights", "layers.-1.weights" of the last layer, "layers.0-2.q",
  /// "layers.*.weights" or bare "weights" of every layer, "layers.3.*", "embed", "final",
  /// "logits"; "*" is all. Other tools' names too ("blocks.0.attn.hook_pattern").
  std::vector<std::string> keep = {};
  /// In their order.
  std::vector<Patch> patches = {};
  /// Whether the streams between layers are kept, so that with() begins at the first patched layer.
  bool streams = true;
  std::size_t threads = 0; ///< 0: as many as pay
  /// Gets the share that is done, 0 to 1, between layers. An exception of it ends the run.
  std::function<void(double)> progress = {};
  /// A run ends with an Error before the next layer once a stop is requested.
  std::stop_token stop = {};
};

/// A token that a model predicts.
struct Predicted {
  ///@{
  /// Its number and text, its logit and its probability.
  int id = 0;
  std::string piece;
  double logit = 0, probability = 0;
  ///@}
};

/// A model's run over texts. Tensors share their memory with it, and outlive it; it shares the
/// ownership of its model. Copies share everything.
class MHA_API Run {
public:
  /// The texts.
  Tokens tokens() const;
  /// The names of what was kept, in the order of the computation: "layers.0.weights".
  std::vector<std::string> kept() const;
  ///@{
  /// Whether tensor() of this name gives a stage: of several layers' it asks which. Throws Error
  /// for a name that is no stage's.
  bool has(std::string_view name) const;
  bool has(TwoNames names) const = delete;
  ///@}
  ///@{
  /// A kept stage: "layers.3.weights", or "weights" where one layer's was kept; "logits". Shape as
  /// docs/stages.md says, batch axis in front for a batch. Throws Error for what was not kept.
  Tensor tensor(std::string_view name) const;
  Tensor tensor(const At& at) const;
  Tensor tensor(TwoNames names) const = delete;
  ///@}
  ///@{
  /// The same as an expression of xtensor, with <mha/xtensor.hpp>; get<double, 3> has its three
  /// axes in its type. Throws Error, too, where the run is not in T or the stage has not N axes;
  /// none of these converts.
  template <class T, std::size_t N = any_rank> Values<T, N> get(std::string_view name) const;
  template <class T, std::size_t N = any_rank> Values<T, N> get(TwoNames names) const = delete;
  template <std::same_as<float> T = float> Values<T> operator[](std::string_view name) const {
    return get<T>(name);
  }
  ///@}
  /// The residual stream before a layer; behind the last one where `layer` is the number of layers,
  /// or -1. (B,) T, d_model. Throws Error where streams are not kept.
  template <WholeNumber I> Tensor resid(I layer) const { return resid_before(position_of(layer)); }

  /// (B,) T, vocabulary. Computed at the first call where they were not kept. Throws Error for a
  /// model without a head, or where streams are not kept.
  Tensor logits() const;
  /// Of each text, −log p of the token that follows each position but the last, in nats. Throws
  /// Error as logits(), and for a model that does not predict the next token. Logits that were kept
  /// are enough.
  std::vector<std::vector<double>> losses() const;
  /// Their mean over all positions of all texts. Throws Error where no position has a next token.
  double loss() const;
  /// The most probable tokens behind a position (negative: from the text's end) of a text.
  std::vector<Predicted> predictions(std::int64_t position = -1, std::size_t top = 10,
                                     std::size_t text = 0) const;

  ///@{
  /// A measure of each head's weights or result by its name in docs/stats.md ("entropy",
  /// "previous", "result_norm"): layers × heads in float64, NaN where nothing is known. Measures
  /// that compare tokens ("induction") read the tokenizer. Of the options threads, progress and
  /// stop count. Throws Error for a name that is none, and where streams are not kept.
  Tensor heads(std::string_view measure, const RunOptions& options = {}) const;
  Tensor heads(TwoNames measures, const RunOptions& options = {}) const = delete;
  ///@}
  ///@{
  /// What the predictions behind some positions of each text (negative: from its end) lose without
  /// each head, zero in its place: "kl"; "loss_change" and, of the most probable token,
  /// "logit_change", without the head less with it; or "direct", what the head adds to that logit
  /// (docs/models.md). Layers × heads in float64, the mean over the positions; NaN where nothing is
  /// known. Options as of heads(). Throws Error for a run with patches, and for loss_change where
  /// behind no position a token follows (-1).
  Tensor effects(std::string_view column = "kl", const Indexes& positions = -1,
                 const RunOptions& options = {}) const;
  Tensor effects(TwoNames columns, const Indexes& positions = -1,
                 const RunOptions& options = {}) const = delete;
  ///@}

  /// The same run with further patches, behind those that it has. Nothing before the first patched
  /// layer is computed again. Of the options, `patches` is empty.
  Run with(std::vector<Patch> patches, const RunOptions& options = {}) const;

  ///@{
  /// What is to be known about the model, the texts and the numbers.
  const std::vector<Note>& notes() const&;
  std::vector<Note> notes() && { return std::as_const(*this).notes(); }
  ///@}

  /// What the library fills it from.
  struct State;
  explicit Run(std::shared_ptr<const State> state) : state_(std::move(state)) {} ///< the library's
  /// The library's.
  const std::shared_ptr<const State>& state() const { return state_.get(); }

private:
  Tensor resid_before(std::int64_t layer) const;

  Shared<const State> state_;
};

/// How a model is opened.
struct ModelOptions {
  /// Settings as text, ("rope_base", "5e5"): they win over the files', for every layer.
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// float32 or float64; none: float32, float64 for float64 weights.
  std::optional<DType> dtype = {};
  /// Bytes that packed weights kept from one run to the next may take; none: half of what is free.
  std::optional<std::size_t> memory = {};
  /// A family by name, or the file of a description (docs/describing.md); "": as the files say.
  std::string naming = {};
};

/// A checkpoint as a whole model: a folder with its config.json, or a file that says as much
/// (GGUF). Opening reads headers; weights are read when they are first needed, and kept for later
/// runs. Copies share everything; all functions may be called from several threads at once.
class MHA_API Model {
public:
  /// Throws Error where there is no model, or it is not covered.
  explicit Model(std::string folder, ModelOptions options = {});

  /// Where it was opened.
  std::string folder() const;
  /// The number of layers.
  std::size_t layers() const;
  /// The sizes of a layer: H, H_kv, d_model, d_k, d_v, d_ff, vocabulary; B = 1, T = S = 1.
  Dims dims(const LayerId& layer = 0) const;
  /// The precision of its runs.
  DType dtype() const;
  /// What is to be known about it.
  std::vector<Note> notes() const;

  ///@{
  /// One text, as the tokenizer beside the model cuts it (with the special tokens that it adds), or
  /// of token numbers of any integral type.
  Tokens tokens(std::string_view text) const;
  Tokens tokens(std::nullptr_t) const = delete;
  Tokens tokens(const std::vector<int>& ids) const;
  Tokens tokens(std::initializer_list<int> ids) const { return tokens(std::vector<int>(ids)); }
  template <WholeNumber I> Tokens tokens(const std::vector<I>& ids) const {
    std::vector<int> numbers;
    for (const I id : ids) {
      const std::int64_t number_of_token = position_of(id);
      if (number_of_token < 0 || number_of_token > std::numeric_limits<int>::max())
        fail("ids: {} is no token", id);
      numbers.push_back(static_cast<int>(number_of_token));
    }
    return tokens(numbers);
  }
  ///@}
  ///@{
  /// Several texts as a batch, each of its own length.
  Tokens batch(const std::vector<std::string>& texts) const;
  Tokens batch(std::initializer_list<const char*> texts) const;
  Tokens batch(const std::vector<std::vector<int>>& ids) const;
  Tokens batch(std::initializer_list<std::vector<int>> ids) const;
  Tokens batch(std::initializer_list<std::initializer_list<int>> ids) const;
  template <std::convertible_to<std::string_view> Text>
  Tokens batch(std::initializer_list<std::initializer_list<Text>> texts) const = delete;
  ///@}
  /// What token numbers stand for. Throws Error for a number that is no token of the model.
  std::string text(const std::vector<int>& ids) const;

  /// Computes texts. Throws Error before anything is computed where what is to be kept would not
  /// fit into memory, for stages that there are not, and for patches that fit nowhere or that
  /// nothing reads.
  Run run(const Tokens& tokens, const RunOptions& options = {}) const;
  /// One pass that keeps nothing: rows of stages as they appear, in the order of layers, stages,
  /// texts, heads and tokens; at most 256 tokens of one head. One call at a time, from threads of
  /// the library; rows may be kept. An exception of `use` ends the pass and comes back. Of the
  /// options, `keep` is empty.
  void stream(const Tokens& tokens, const std::vector<std::string>& stages,
              const std::function<void(const At& at, Place place, Tensor rows)>& use,
              const RunOptions& options = {}) const;

  ///@{
  /// A layer by itself: its weights and settings, without an input; or with the input that texts
  /// give it. Of the options threads, progress and stop count.
  Layer layer(const LayerId& layer) const;
  Layer layer(const LayerId& layer, const Tokens& tokens, const RunOptions& options = {}) const;
  ///@}
  ///@{
  /// A weight as products read it, in the model's precision: "layers.3.W_q", (in, out);
  /// "layers.-1.mlp.out" of the last layer; "W_E" (vocabulary, d_model), without the factor that
  /// embed has, "W_pos", "final_norm.weight" as it lies, "W_U" (d_model, vocabulary), "b_U". A
  /// fused one is read by its parts. Throws Error for a name that the model has no weight of.
  Tensor weight(std::string_view name) const;
  Tensor weight(TwoNames names) const = delete;
  ///@}
  /// The model with another weight of attention in this one's place, of the same shape. This one
  /// stays.
  Model with(std::string_view name, Tensor weight) const;

  /// What the library fills it from.
  struct State;
  explicit Model(std::shared_ptr<State> state) : state_(std::move(state)) {} ///< the library's
  /// The library's.
  const std::shared_ptr<State>& state() const { return state_.get(); }

private:
  Shared<State> state_;
};

} // namespace mha
