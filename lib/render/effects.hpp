#pragma once
// Effects of a model's parts as a table, CSV or JSON.

#include <mha/model/effects.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

struct EffectsView {
  bool per_position = false;           ///< a line a part and prediction, with text and position
  std::vector<Effect> deviations = {}; ///< of each line, beside it; or none
  std::optional<std::size_t> precision = {}; ///< significant digits of CSV and JSON; none: all
  std::string answer = "the clean run's most probable token"; ///< whose logit is followed
};

std::string effects_table(const std::vector<Effect>& effects, const EffectsView& view,
                          const TextStyle& text_style);
/// csv, tsv or json.
std::string effects_text(const std::vector<Effect>& effects, const EffectsView& view,
                         std::string_view form);
/// csv or tsv, without the line of titles where it stands above already.
std::string effects_csv(const std::vector<Effect>& effects, const EffectsView& view,
                        std::string_view form, bool titles);
/// The items of a JSON list without its brackets, one a line.
std::string effects_json_items(const std::vector<Effect>& effects, const EffectsView& view);

} // namespace mha::render
