#pragma once
// Parts of a reference's tensors: the rows and the batch item that are a text's, and stages of
// which the last token or some columns alone were saved.

#include <mha/files/contents.hpp>
#include <mha/layer/layer.hpp>

#include <optional>
#include <string>

namespace mha {

/// Where a text lies in a reference of several texts, or of one with padding.
struct TextPlace {
  std::size_t item = 0, items = 1; ///< of a batch; 1: none, or one
  std::size_t first = 0, rows = 0; ///< its first row, of so many
};

/// The rows of a batch of texts that begin at rows `firsts`, of `rows`: each text's moved to the
/// front, T of them; what stands behind them is padding.
io::Entry rows_of_texts(const io::Entry& entry, const std::vector<std::size_t>& firsts,
                        std::size_t rows, std::size_t T);

/// The rows [first, first + T) of batch item `item`: every entry with an axis of `rows` tokens (a
/// map's two) or `items` texts; others as they are.
io::Entry part_of_text(const io::Entry& entry, const TextPlace& place, std::size_t T);

/// An entry in the shape of a stage of which it holds a part, the rest not_saved(): the last token
/// alone of a step behind the heads, the first columns of logits. Or one item of a batch, the one
/// nearest to what the layer computes; the rows of a cache before those that are not filled.
/// Nothing where it holds no such part. `how` says which.
struct PartOfStage {
  io::Entry entry;
  std::string how;
};
std::optional<PartOfStage> part_of_stage(const Layer& layer, Stage stage, const io::Entry& entry);

/// What a tensor of another shape than the stage's looks like, for a message: ": the last token
/// alone", ": a rank's share"; or "".
std::string what_it_may_be(const Layer& layer, Stage stage, const Shape& shape);

} // namespace mha
