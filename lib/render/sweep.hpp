#pragma once
// A sweep of patches (model/sweep.hpp) as a table.

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

/// One of `result_forms`. For eyes a table a stage: of two axes the first downwards and the second
/// across, else a line a point.
std::string sweep_text(const SweepResult& sweep, const SweepView& view, std::string_view form,
                       const TextStyle& text_style);

} // namespace mha::render
