#pragma once
// Words and cells that the tables of comparisons share: places of differences, distances from
// float64, and what of a reference was compared.

#include <mha/compare/coverage.hpp>
#include <mha/compare/diff.hpp>
#include <mha/naming/coordinates.hpp>
#include <mha/render/table.hpp>
#include <mha/render/text.hpp>
#include <mha/tensor/tensor.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha::render {

std::vector<std::string> stage_names(const std::vector<Stage>& stages);

/// "query 17 't9'", "head 2 query 17 key 4": the place of an element of a stage.
std::string place_text(const std::vector<Coordinate>& at);
/// "h2 q17 't9' k4": as short as a table needs it.
std::string short_place(const Layer& layer, Stage stage, const std::vector<std::size_t>& at);

/// "head 5, queries 5000–5063", "batch 0, queries 32–47, all heads; batch 1, head 2, query 3",
/// "all queries, all heads"; "" where nothing differs.
std::string regions_text(const Layer& layer, Stage stage, const Difference& difference);
/// "5–9, 12".
std::string text_of(const IndexRanges& ranges);

/// Whether an element has a head among its places, concat's columns too.
bool has_heads(const Layer& layer, Stage stage);

/// "0", "13", "1.2e+06", "∞".
std::string ulp_text(double distance);
/// "32 numbers beyond 1 ulp of bfloat16, 30 beyond 2, 12 beyond 8, at most 256."; "" where all are
/// the same.
std::string ulp_sentence(const Difference& difference, DType coarser);

/// The columns of exact_cells.
std::vector<Table::Column> exact_columns();
/// Our distance, the reference's, and how many times as far as rounding it is; empty cells where
/// that is not known.
std::vector<std::string> exact_cells(const std::optional<FromExact>& exact);
/// "Measured against float64, the reference's error in q is 0.3 times the most that float32
/// rounding explains: rounding."
std::string exact_sentence(std::string_view stage, const FromExact& exact);

/// "compared: …; not compared: …; skipped: …", wrapped, below a verdict on a whole model.
std::string coverage_text(const Coverage& coverage, const TextStyle& text_style);

} // namespace mha::render
