#pragma once
// The place of a patch, in a layer: which heads, and of each text which tokens and columns.

#include <mha/load/patch_text.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// A stage's axes after the batch: heads (or none), tokens, columns (or none).
struct PlaceAxes {
  std::vector<std::size_t> heads;
  std::vector<std::vector<std::size_t>> tokens;  ///< of each batch item
  std::vector<std::vector<std::size_t>> columns; ///< of each; one list: of all
  bool with_heads = false, with_columns = false;

  const std::vector<std::size_t>& columns_of(std::size_t batch) const {
    return columns[columns.size() > 1 ? batch : 0];
  }
};

/// The place of a patch of a stage, which is put into `to`. Positions are counted in each text.
/// Throws Error where the layer has no such place.
PlaceAxes axes_of(const PatchText& patch, const Layer& layer, Stage stage, StagePatch& to);

/// Without the blanks around it.
std::string_view trimmed(std::string_view text);
/// Where the first of these characters stands outside of quotes and brackets.
std::size_t find_outside(std::string_view text, std::string_view any);
/// The parts between commas that stand outside of quotes and brackets.
std::vector<std::string> split_axes(std::string_view text);

} // namespace mha
