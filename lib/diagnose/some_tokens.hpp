#pragma once
// Layers with a part of the text, for screening. If no token depends on later ones, the rows of the
// first tokens are those of the whole text; after the last layer all tokens are independent. The
// bits need not be those of the whole layer.

#include <mha/diagnose/hypotheses/change.hpp>
#include <mha/layer/layer.hpp>

#include <optional>

namespace mha {

/// The layer with only the first `count` tokens; nothing if a tensor other than the input depends
/// on the number of tokens, or if a text is shorter.
std::optional<Layer> of_first_tokens(const Layer& layer, std::size_t count);

/// A stage in the form of Layer::given with the rows after the end of shorter texts set to 0, as
/// this program has them; other implementations may leave anything there.
Tensor without_padding(const Tensor& theirs, Stage stage, const std::vector<std::size_t>& lengths);

/// The rows of some tokens of a tensor (B, T, width) or (B, T).
Tensor token_rows(const Tensor& tensor, const std::vector<std::size_t>& tokens);

/// A part of a model's end: some tokens and some of the vocabulary's logits; empty lists mean all.
struct EndSample {
  std::vector<std::size_t> tokens, logits;
  bool operator==(const EndSample&) const = default;

  /// The part extended as needed to judge the changes: all tokens if a change computes a row from
  /// other tokens' rows, all logits if it computes a logit from other logits.
  EndSample needed_for(const std::vector<const Change*>& changes) const;
};
/// `count` evenly spaced numbers below `all`, including the first and the last; `all` must be
/// larger.
std::vector<std::size_t> evenly(std::size_t all, std::size_t count);
/// Evenly spaced logits of a large vocabulary; empty (all) for a small one.
std::vector<std::size_t> some_logits(const Layer& ends);
/// The model's ends restricted to a part. In a batch, tokens may be chosen only if all texts have
/// one length.
Layer ends_of(const Layer& ends, const EndSample& part);
/// The part of a stage of the ends, in the form of Layer::given.
Tensor part_of(const Tensor& value, Stage stage, const EndSample& part);

/// The layer with only these rows' queries, prepared to compute `target`: all keys and values are
/// given, masks and position biases are written out. The queries attend to the same keys as before.
Layer some_queries(const Layer& layer, const std::vector<std::size_t>& rows, Stage target);

/// The rows of these queries of a stage in the form of Layer::given; stages of keys are returned
/// whole.
Tensor some_queries(Stage stage, const Tensor& value, const std::vector<std::size_t>& rows);

} // namespace mha
