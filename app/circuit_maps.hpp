#pragma once
// map -s qk|ov: circuits between tokens as maps, of the weights alone.

#include "figures.hpp"
#include "output.hpp"
#include <mha/render/map.hpp>

namespace mha::app {

struct CircuitMaps {
  bool ov = false;                ///< else QK
  std::vector<std::string> words; ///< --vocab
  std::int64_t offset = 0;        ///< --distance
  Selection selection;            ///< --head
  render::MapColors colors;
  OutputOptions output;
  FigureOptions figure;

  /// What is drawn, as titles call it.
  const char* product() const { return ov ? "W_E OV W_U" : "W_E QK W_Eᵀ"; }
};

/// Draws them: a panel a head, rows the query's token (of OV: the one that is attended to), columns
/// the key's (of OV: the one whose logit it is). `form` is text, png or svg.
void draw_circuits(const RunRequest& request, const CircuitMaps& maps, const std::string& form,
                   Common& common);

/// Throws Error for an offset of a layer whose QK does not depend on it.
void require_rotary(bool is_rotary, std::int64_t offset);
/// --distance N, of commands that show QK.
void add_offset(Cli& cli, std::optional<std::int64_t>& offset);

} // namespace mha::app
