#pragma once
// Distances of ours and the reference's from float64, in words and cells of a table.

#include <mha/compare/diff.hpp>
#include <mha/render/table.hpp>
#include <mha/tensor/tensor.hpp>

#include <optional>

namespace mha::render {

/// The columns of exact_cells.
std::vector<Table::Column> exact_columns();
/// Our distance, the reference's, and how many times as far as rounding it is; empty cells where
/// that is not known.
std::vector<std::string> exact_cells(const std::optional<FromExact>& exact);
/// "Measured against float64, the reference's error in q is 0.3 times the most that float32
/// rounding explains: rounding."
std::string exact_sentence(std::string_view stage, const FromExact& exact, DType precision);

} // namespace mha::render
