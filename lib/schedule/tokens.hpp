#pragma once
// Steps of tokens: what happens to each token by itself, before and after tokens meet.

#include <mha/schedule/linear.hpp>
#include <mha/schedule/memory.hpp>

#include <functional>
#include <vector>

namespace mha {

/// Some rows of the token stages, as a formula sees them.
template <class T> class TokenRows {
public:
  TokenRows(const TokenStages<T>& stages, const Tile& tile, std::size_t head_width)
      : stages_(stages), tile_(tile), head_width_(head_width) {}

  /// The rows of a stage: heads side by side, of which a formula fills its own.
  Matrix<T> operator[](Stage stage) const {
    return stages_.rows_mutable(stage, tile_.batch).rows_from(tile_.first, tile_.count);
  }
  /// The rows of the input that keys or values are made of; of x, where that is empty.
  Matrix<const T> input(const Tensor& X) const {
    return X.empty() ? Matrix<const T>((*this)[Stage::x]) : of(X);
  }
  /// The same rows of a tensor of the layer.
  Matrix<const T> of(const Tensor& tensor) const {
    return matrix_of<T>(tensor, tile_.batch).rows_from(tile_.first, tile_.count);
  }
  HeadRange heads() const { return tile_.heads; }
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

/// What a step needs beside its own rows: its head of them, or the whole row. Tiles are cut to it
/// before a formula runs.
enum class Needs : std::uint8_t { head, row };

/// One step of tokens.
template <class T> struct TokenStep {
  Stage stage;
  Needs needs;
  Prepared* prepared; ///< what it applies; nullptr: nothing
  std::function<void(const TokenRows<T>&)> formula;
};

/// Which tokens: those that x holds, queries, or keys and values.
enum class Sequence : std::uint8_t { input, query, key };

/// Steps of the same tokens, one after the other on each.
template <class T> struct Tokens {
  Sequence sequence;
  std::vector<TokenStep<T>> steps;
};

} // namespace mha
