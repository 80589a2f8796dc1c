#pragma once
// Studies of a whole model as text: effects of its parts, logits of a part, sweeps of patches.

#include <mha/model/effects.hpp>
#include <mha/model/part_logits.hpp>
#include <mha/model/sweep.hpp>
#include <mha/render/predict.hpp>
#include <mha/render/table.hpp>
#include <mha/render/text.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha::render {

struct EffectsView {
  bool per_position = false;           ///< one line per part and prediction, with text and position
  std::vector<Effect> deviations = {}; ///< of each line; or none
  std::string answer = "the clean run's most probable token"; ///< whose logit is followed
  bool experts = false;                                       ///< some lines are of experts
};

/// One line per part. For readers it has the columns in which some part has a number, for programs
/// all. `width` is
/// the screen's.
Table effects_table(const std::vector<Effect>& effects, const EffectsView& view, std::size_t width);

struct PartView {
  std::string part; ///< "layers.3.head_result[5]", or a file
  PartNorm norm = PartNorm::frozen;
  std::size_t top = 10;                      ///< tokens of each side
  std::optional<std::size_t> precision = {}; ///< significant digits of CSV and JSON; none: all
};

/// One of `result_forms`: one line per token; for readers both sides side by side; as json an
/// object a place.
std::string part_logits_text(const std::vector<PartLogits>& parts, const PartView& view,
                             std::string_view form, const TokenNames& names,
                             const TextStyle& text_style);

/// The options of sweep_text.
struct SweepView {
  std::vector<std::string> stages; ///< as named by the user
  std::vector<SweepAxis> over;
  std::string metric; ///< "logit"
  bool raw = false;
  std::vector<std::string> tokens; ///< labels of queries and keys, of one pair; else empty
  std::optional<std::size_t> precision = {}; ///< significant digits of CSV and JSON; none: all
};

/// One of `result_forms`. For readers a table a stage: of two axes the first downwards and the
/// second across, else one line per point.
std::string sweep_text(const SweepResult& sweep, const SweepView& view, std::string_view form,
                       const TextStyle& text_style);

} // namespace mha::render
