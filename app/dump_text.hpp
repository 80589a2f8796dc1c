#pragma once
// A text in a dump, beside its stages: token numbers, tokens, lengths.

#include <mha/files/writer.hpp>
#include <mha/layer/select.hpp>
#include <mha/model/opened_model.hpp>

namespace mha::app {

/// An item of whole numbers.
struct NumbersOfText {
  io::Item item;
  std::vector<std::int64_t> values;
};

/// `lengths` (B), where the texts of a batch are not equally long; `ids` (T or B × T) of a text.
/// `texts`: those of a whole model, or null. Of chosen batch items, each has the numbers of itself,
/// as many as the longest of them.
std::vector<NumbersOfText> numbers_of_text(const Layer& layer, const Texts* texts,
                                           const Selection& selection);

/// Adds `tokens`, those of the chosen queries, of each batch item where there are some; where some
/// queries or keys are chosen, or keys have other labels, `key_tokens`, too: labels stand at the
/// rows and columns of the stages.
void add_labels_of_text(const Layer& layer, const Texts* texts, const Selection& selection,
                        io::Output& output);

} // namespace mha::app
