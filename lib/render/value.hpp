#pragma once
// A stage's selected value as renderers get it: numbers with their places.

#include <mha/layer/layer.hpp>
#include <mha/layer/select.hpp>

namespace mha::render {

/// One side of a value. A dropped axis (`--head 0`) still knows its one position. An absent side
/// differs from one of no tokens, which has no positions.
struct Side {
  Axis axis = Axis::width;
  std::vector<std::size_t> positions;
  bool dropped = false;
  std::vector<std::string> labels; ///< of the positions, or empty
  bool absent = false;             ///< the stage does not have it
  /// Labels of the positions for each position of the batch, where items are other texts; else
  /// empty.
  std::vector<std::vector<std::string>> of_items{};
  /// The number of positions of each text without the padding at its end, if lengths differ; else
  /// empty.
  std::vector<std::size_t> own_counts{};

  bool exists() const { return !absent; }
  /// Positions to run over: one where there is no such side.
  std::size_t count() const { return absent ? 1 : positions.size(); }
  /// The labels of the positions at one position of the batch.
  const std::vector<std::string>& labels_of(std::size_t b) const {
    return b < of_items.size() ? of_items[b] : labels;
  }
  /// The side of one position of the batch.
  Side of_item(std::size_t b) const;
  /// count() without the padding after the text at one position of the batch.
  std::size_t count_of(std::size_t b) const {
    return b < own_counts.size() ? own_counts[b] : count();
  }
  /// of_item() without that padding.
  Side without_padding(std::size_t b) const;
};

/// A stage, or a selected part of it. `numbers` is row-major over batch,
/// head, row, col, as far as they exist and are not dropped. For row values such as row_max the
/// rows are the queries.
struct Value {
  std::string layer; ///< "1" where the layer has a number, else ""
  std::string stage;
  std::string formula; ///< as this layer computes it
  Tensor numbers;
  Side batch = absent(), head = absent(), row = absent(), col = absent();

  /// "weights", or "layers.1.weights".
  std::string name(bool with_layer) const;

private:
  static Side absent() { return {Axis::width, {}, false, {}, true}; }
};

/// The selected part of a stage with the positions of its axes, and the labels of the layer.
Value make_value(const Layer& layer, std::string layer_id, Stage stage, const Selection& selection,
                 Tensor numbers);

/// The name of a side: "query", "key", "head"; "" for a width.
std::string_view name_of(Axis axis);

} // namespace mha::render
