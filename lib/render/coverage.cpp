#include <mha/render/coverage.hpp>

#include <fmt/format.h>

#include <vector>

namespace mha::render {

std::string coverage_text(const Coverage& coverage, const TextStyle& text_style) {
  std::string text = fmt::format("compared: {}", coverage.compared());
  if (const std::vector<std::string> left = coverage.not_compared(); !left.empty())
    text += fmt::format("; not compared: {}", fmt::join(left, ", "));
  if (const std::vector<std::string> left = coverage.skipped(); !left.empty())
    text += fmt::format("; passed over: {}", fmt::join(left, ", "));
  std::string out;
  for (const std::string& line : wrapped(visible(text), text_style.width))
    out += text_style.dim(line) + "\n";
  return out;
}

} // namespace mha::render
