#pragma once
// Tokens that a part of a model promotes and suppresses, as a table, CSV or JSON.

#include <mha/model/part_logits.hpp>
#include <mha/render/predict.hpp>

namespace mha::render {

struct PartView {
  std::string part; ///< "layers.3.head_result[5]", or a file
  PartNorm norm = PartNorm::frozen;
  std::size_t top = 10;                      ///< tokens of each side
  std::optional<std::size_t> precision = {}; ///< significant digits of CSV and JSON; none: all
};

std::string part_logits_table(const std::vector<PartLogits>& parts, const PartView& view,
                              const TokenNames& names, const TextStyle& text_style);
std::string part_logits_csv(const std::vector<PartLogits>& parts, const PartView& view,
                            const TokenNames& names, std::string_view form);
std::string part_logits_json(const std::vector<PartLogits>& parts, const PartView& view,
                             const TokenNames& names);

} // namespace mha::render
