#pragma once
// Shorter layers of the same text, for screening. Where nothing sees later tokens, the first
// tokens' rows are those of the whole text; behind the last layer every token is by itself.

#include <mha/diagnose/hypotheses/change.hpp>
#include <mha/layer/layer.hpp>

#include <optional>

namespace mha {

/// The layer with the first `count` tokens alone; nothing where one of its tensors counts tokens in
/// another way than its input, or a text ends before that. The bits need not be those of the whole.
std::optional<Layer> of_first_tokens(const Layer& layer, std::size_t count);

/// A stage in the form of Layer::given whose rows behind the end of a shorter text are 0, as they
/// are here, whatever others leave there.
Tensor without_padding(const Tensor& theirs, Stage stage, const std::vector<std::size_t>& lengths);

/// The rows of some tokens, of a tensor (B, T, width) or (B, T).
Tensor token_rows(const Tensor& tensor, const std::vector<std::size_t>& tokens);

/// What is looked at of a model's end: some tokens, some of the vocabulary's logits; empty: all.
struct EndSample {
  std::vector<std::size_t> tokens, logits;
  bool operator==(const EndSample&) const = default;

  /// What of it tells whether a change explains the end: all tokens where the change makes a row of
  /// others' rows, all logits where it makes one of others.
  EndSample needed_for(const std::vector<const Change*>& changes) const;
};
/// `count` of all numbers below `all`, from the first to the last, evenly; all must be more.
std::vector<std::size_t> evenly(std::size_t all, std::size_t count);
/// Logits of a vocabulary so large that some show what all would; else empty: all.
std::vector<std::size_t> some_logits(const Layer& ends);
/// The model's ends of that part alone. Tokens of a batch are those of texts of one length.
Layer ends_of(const Layer& ends, const EndSample& part);
/// That part of a stage of the ends, in the form of Layer::given.
Tensor part_of(const Tensor& value, Stage stage, const EndSample& part);

/// The layer with the queries of these rows alone, ready to compute `target`: keys and values
/// whole, masks and position biases written out.
Layer some_queries(const Layer& layer, const std::vector<std::size_t>& rows, Stage target);

/// Those queries' part of a stage's value, in the form of Layer::given; stages of keys as they are.
Tensor some_queries(Stage stage, const Tensor& value, const std::vector<std::size_t>& rows);

} // namespace mha
