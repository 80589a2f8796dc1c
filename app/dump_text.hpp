#pragma once
// The text in a dump, beside its stages: token numbers, tokens, lengths.

#include <mha/files/writer.hpp>
#include <mha/layer/select.hpp>
#include <mha/model/opened_model.hpp>

namespace mha::app {

/// An item of integers.
struct NumbersOfText {
  io::Item item;
  std::vector<std::int64_t> values;
};

/// `lengths` (B) if the texts of a batch differ in length, and `ids` (T or B × T) of a text.
/// `texts`: those of a whole model, or null. If batch items are selected, each has its own token
/// numbers, padded to the longest of the selected texts.
std::vector<NumbersOfText> numbers_of_text(const Layer& layer, const Texts* texts,
                                           const Selection& selection);

/// Adds the labels of the stages' rows and columns: `tokens` of the selected queries, for each
/// batch item of a batch, and `key_tokens` if queries or keys are selected or keys have other
/// labels.
void add_labels_of_text(const Layer& layer, const Texts* texts, const Selection& selection,
                        io::Output& output);

} // namespace mha::app
