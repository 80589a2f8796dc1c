#pragma once
// Steps of tokens: what happens to each token by itself, before and after tokens meet.

#include <mha/schedule/memory.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace mha {

/// Some rows of the token stages, as a formula sees them.
template <class T> class TokenRows {
public:
  TokenRows(const TokenStages<T>& stages, const Tile& tile, std::size_t head_width)
      : stages_(stages), tile_(tile), head_width_(head_width) {}

  /// The rows of a stage: heads side by side, of which a formula fills its own.
  Matrix<T> operator[](Stage stage) const { return stages_.rows_mutable(stage, tile_); }
  /// The same rows of a tensor of the layer.
  Matrix<const T> of(const Tensor& tensor) const {
    return matrix_of<T>(tensor, tile_.batch).rows_from(tile_.first, tile_.count);
  }
  HeadRange heads() const { return tile_.heads; }
  std::size_t batch() const { return tile_.batch; }
  /// The columns of these heads.
  ColumnRange columns() const {
    return {tile_.heads.first * head_width_, tile_.heads.last * head_width_};
  }
  /// The first row's number in its sequence.
  std::size_t first() const { return tile_.first; }

private:
  const TokenStages<T>& stages_;
  Tile tile_;
  std::size_t head_width_;
};

/// What a step needs of its rows: its own columns (a head's, or some of W's), or the whole row.
/// Tiles are cut to it before a formula runs.
enum class Needs : std::uint8_t { head, row };

/// What a phase's tasks do with an operator.
struct Usage {
  std::size_t rows = 0, threads = 1; ///< rows in all; up to `threads` threads get ready for them
  bool shared = false;               ///< several tasks have the same columns
  std::vector<std::size_t> batches;  ///< of the rows
};

/// What a step does to rows: a projection, a norm, a rotation, a sum.
template <class T> class RowOperator {
public:
  RowOperator() = default;
  virtual ~RowOperator() = default;
  RowOperator(const RowOperator&) = delete;
  RowOperator& operator=(const RowOperator&) = delete;

  virtual Needs needs() const { return Needs::head; }
  /// The matrix that rows are multiplied with; null: none.
  virtual const Tensor* weight() const { return nullptr; }
  /// Made for the rows of a phase, and dropped after it: a phase prepares before its tasks and
  /// drops after them.
  virtual void prepare(const Usage& usage) { (void)usage; }
  virtual void release() {}
  /// rows[to] = this(rows[from]), of the rows' heads.
  virtual void apply(const TokenRows<T>& rows, Stage from, Stage to) const = 0;
};

/// One step of tokens: stage = op(from).
template <class T> struct TokenStep {
  Stage stage;
  RowOperator<T>& op;
  Stage from;
};

/// Which tokens: those that x holds, queries, or keys and values.
enum class Sequence : std::uint8_t { input, query, key };

/// Steps of the same tokens, one after the other on each.
template <class T> struct TokenSteps {
  Sequence sequence;
  std::vector<TokenStep<T>> steps;
};

/// The first step after a product that needs whole rows, or the end: the steps before it need only
/// the columns of W that a task multiplies with.
template <class T> auto first_of_whole_rows(const std::vector<TokenStep<T>>& steps) {
  const auto needs_row = [](const TokenStep<T>& step) { return step.op.needs() == Needs::row; };
  return steps.front().op.weight() ? std::find_if(steps.begin() + 1, steps.end(), needs_row)
                                   : steps.end();
}

/// The steps before those that need whole rows, and the others, which wait for all columns.
template <class T> std::array<std::vector<TokenSteps<T>>, 2>
cut_at_whole_rows(const std::vector<TokenSteps<T>>& phase) {
  std::array<std::vector<TokenSteps<T>>, 2> parts;
  for (const auto& [sequence, steps] : phase) {
    const auto cut = first_of_whole_rows(steps);
    parts[0].push_back({sequence, {steps.begin(), cut}});
    if (cut != steps.end()) parts[1].push_back({sequence, {cut, steps.end()}});
  }
  return parts;
}

} // namespace mha
