#pragma once
// map -s qk|ov: maps of circuits between tokens, computed from the weights alone.

#include "figures.hpp"
#include "output.hpp"
#include <mha/render/map.hpp>

namespace mha::app {

struct CircuitMaps {
  bool ov = false;                ///< QK if false
  std::vector<std::string> words; ///< --vocab
  std::int64_t offset = 0;        ///< --distance
  Selection selection;            ///< --head
  render::MapColors colors;
  OutputOptions output;
  FigureOptions figure;

  /// The matrix product, for titles.
  const char* product() const { return ov ? "W_E OV W_U" : "W_E QK W_Eᵀ"; }
};

/// Draws a panel for each head. For QK, rows are the query's tokens and columns the key's; for OV,
/// rows are the attended tokens and columns the tokens of the logits. `form` is text, png or svg.
void draw_circuits(const RunRequest& request, const CircuitMaps& maps, const std::string& form,
                   Common& common);

/// Throws Error for an offset if the layer's QK does not depend on it.
void require_rotary(bool is_rotary, std::int64_t offset);
/// Declares --distance N for commands that show QK.
void add_offset(Cli& cli, std::optional<std::int64_t>& offset);

} // namespace mha::app
