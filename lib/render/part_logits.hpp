#pragma once
// Tokens that a part of a model promotes and suppresses.

#include <mha/model/part_logits.hpp>
#include <mha/render/predict.hpp>

namespace mha::render {

struct PartView {
  std::string part; ///< "layers.3.head_result[5]", or a file
  PartNorm norm = PartNorm::frozen;
  std::size_t top = 10;                      ///< tokens of each side
  std::optional<std::size_t> precision = {}; ///< significant digits of CSV and JSON; none: all
};

/// One of `result_forms`: a line a token; for eyes both sides beside each other; as json an object
/// a place.
std::string part_logits_text(const std::vector<PartLogits>& parts, const PartView& view,
                             std::string_view form, const TokenNames& names,
                             const TextStyle& text_style);

} // namespace mha::render
