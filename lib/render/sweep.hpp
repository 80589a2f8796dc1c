#pragma once
// A sweep of patches (model/sweep.hpp) as a grid for eyes, CSV or JSON.

#include <mha/model/sweep.hpp>
#include <mha/render/text.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha::render {

/// What is shown of a sweep, besides its numbers.
struct SweepView {
  std::vector<std::string> stages; ///< as they were named
  std::vector<SweepAxis> over;
  std::string metric; ///< "logit"
  bool raw = false;
  std::vector<std::string> tokens; ///< labels of queries and keys, of one pair; else empty
  std::optional<std::size_t> precision = {}; ///< significant digits of CSV and JSON; none: all
};

/// One stage's points as rows and columns: its first axis downwards, the second across; points of
/// more axes, or of one, as lines.
std::string sweep_table(const SweepResult& sweep, const SweepView& view,
                        const TextStyle& text_style);
std::string sweep_csv(const SweepResult& sweep, const SweepView& view, std::string_view form);
std::string sweep_json(const SweepResult& sweep, const SweepView& view);

} // namespace mha::render
