#pragma once
// Parts of a reference's tensors: the batch item and the rows of a text, and stages saved only for
// the last token or for some columns.

#include <mha/files/contents.hpp>
#include <mha/layer/layer.hpp>

#include <optional>
#include <string>

namespace mha {

/// The place of a text in a reference of several texts, or of a padded one.
struct TextPlace {
  std::size_t item = 0, items = 1; ///< `items` is 1 without a batch
  std::size_t first = 0, rows = 0; ///< the text's first row, and all rows
};

/// A batch of texts with `rows` rows each, which begin at rows `firsts`: moves each text to the
/// front and keeps T rows. Rows after a text are padding.
io::Entry rows_of_texts(const io::Entry& entry, const std::vector<std::size_t>& firsts,
                        std::size_t rows, std::size_t T);

/// The rows [first, first + T) of batch item `item`, for entries with an axis of `rows` tokens
/// (maps have two) or `items` texts. Other entries stay unchanged.
io::Entry part_of_text(const io::Entry& entry, const TextPlace& place, std::size_t T);

/// A part of a stage in the stage's whole shape, the rest not_saved(): only the last token of a
/// step after the heads, the first columns of logits. Or a whole stage cut out of an entry: the
/// batch item nearest to the layer's own value, the filled rows of a cache. Nothing if the entry
/// holds no such part. `how` names it.
struct PartOfStage {
  io::Entry entry;
  std::string how;
};
std::optional<PartOfStage> part_of_stage(const Layer& layer, Stage stage, const io::Entry& entry);

/// A guess at a tensor of another shape than the stage's, for a message: ": it is one token's",
/// ": the share of one rank"; or "".
std::string what_it_may_be(const Layer& layer, Stage stage, const Shape& shape);

} // namespace mha
