#pragma once
// The order of rows: finds and names the permutation between two matrices.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mha {

/// Row i of the result is row order[i].
using RowPermutation = std::vector<std::size_t>;

/// A matrix of numbers, row by row.
struct NumberRows {
  std::span<const float> numbers;
  std::size_t rows = 0, columns = 0;
  std::span<const float> row(std::size_t i) const { return numbers.subspan(i * columns, columns); }
};

/// Makes neighbours of the pairs (i, i + d/2) of every head of d rows, as llama.cpp's converter
/// does with queries and keys. `rows` is a multiple of 2 · heads.
RowPermutation half_to_interleaved(std::size_t rows, std::size_t heads);
RowPermutation inverse(const RowPermutation& order);

/// Matches each row of `b` with the row of `a` that it most likely is, each once. Nothing if two
/// rows are alike, or one has no counterpart.
std::optional<RowPermutation> matching_rows(const NumberRows& a, const NumberRows& b);

/// "half to interleaved, in 4 heads", "heads of 16 rows in the order 2, 0, 1, 3", "rows in another
/// order: 5, 0, 2 …"; `what`: "rows" or "columns". `heads`: the likelier numbers of heads.
std::string name_of_order(const RowPermutation& order, const std::vector<std::size_t>& heads,
                          const char* what);

/// The possible numbers of heads: those given, then all others that divide the rows into even parts
/// of at least 4.
std::vector<std::size_t> possible_heads(std::size_t rows, const std::vector<std::size_t>& given);

} // namespace mha
