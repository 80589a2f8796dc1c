#include <mha/layer/graph.hpp>
#include <mha/render/explain_parts.hpp>
#include <mha/render/label.hpp>
#include <mha/system/words.hpp>

#include <fmt/core.h>

#include <algorithm>

namespace mha::render {

namespace {

constexpr std::size_t heading_width = 18;

/// Parts joined by " · ", broken into lines at those dots.
std::string in_dotted_lines(const std::vector<std::string>& parts, std::size_t width) {
  std::string text, line;
  for (const std::string& part : parts) {
    if (!line.empty() && display_width(line) + 3 + display_width(part) > width) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " · ") + part;
  }
  return text + line;
}

/// "sees keys 0–17", "sees 12 of 33 keys"; nothing where no stage shows it.
std::string sees_text(const HeadExplanation& head) {
  if (head.masked.empty()) return "";
  std::vector<std::size_t> seen;
  for (std::size_t j = 0; j < head.masked.size(); ++j)
    if (!head.masked[j]) seen.push_back(j);
  if (seen.empty()) return "sees no key";
  const std::string list = ranges(seen);
  if (list.empty()) return fmt::format("sees {} of {} keys", seen.size(), head.masked.size());
  return fmt::format("sees key{} {}", seen.size() == 1 ? "" : "s", list);
}

/// The keys that heads see, if all see the same.
std::string sees_text(const std::vector<HeadExplanation>& heads) {
  for (const HeadExplanation& head : heads)
    if (head.masked != heads.front().masked) return "";
  return heads.empty() ? "" : sees_text(heads.front());
}

} // namespace

std::string scale_text(const Explanation& explanation) {
  std::string value = fmt::format("{:.4g}", explanation.scale);
  if (explanation.temperature != 1)
    value += fmt::format(" · temperature {:.4g}", explanation.temperature);
  switch (explanation.settings.scale) {
  case ScaleKind::d_k:
    return fmt::format("scale 1/√{} = {}", explanation.dims.d_k, value);
  case ScaleKind::d_model:
    return fmt::format("scale 1/√{} = {}", explanation.dims.d_model, value);
  case ScaleKind::none:
    return explanation.temperature == 1 ? "no scale" : "scale " + value;
  case ScaleKind::number:
    return "scale " + value;
  }
  return "";
}

std::string projection(const Explanation& explanation, std::string_view input, std::string_view W,
                       bool has_W, std::string_view b, bool has_b) {
  std::string text(input);
  if (has_W)
    text = explanation.settings.columns ? fmt::format("{} {}", W, input)
                                        : fmt::format("{} {}", input, W);
  if (has_b) text += fmt::format(" + {}", b);
  return text;
}

std::string heading(const TextStyle& text_style, std::string_view title,
                    const std::vector<std::string>& formulas) {
  std::string text = "\n" + text_style.bold(title);
  // Beside the title; below it where a formula would not fit.
  std::size_t before = heading_width;
  for (const std::string& formula : formulas)
    if (heading_width + 3 + display_width(formula) > text_style.width) before = 0;
  if (!formulas.empty() && before == 0) text += "\n";
  if (!formulas.empty() && before > 0)
    text += std::string(heading_width - std::min(heading_width, display_width(title)), ' ');
  std::string line;
  const auto flush = [&](bool last) {
    text += "  " + text_style.dim(line) + (last ? "" : "\n" + std::string(before, ' '));
    line.clear();
  };
  for (std::size_t i = 0; i < formulas.size(); ++i) {
    const std::string part = formulas[i] + (i + 1 < formulas.size() ? "," : "");
    if (!line.empty() && before + 3 + display_width(line) + display_width(part) > text_style.width)
      flush(false);
    line += (line.empty() ? "" : " ") + part;
  }
  if (!line.empty()) flush(true);
  return text + "\n";
}

std::string note_lines(const TextStyle& text_style, const std::vector<Message>& notes) {
  std::string text;
  for (const Message& note : notes) {
    std::string_view start = "! ";
    for (const std::string& line :
         wrapped(typed(note), text_style.width > 24 ? text_style.width - 4 : 20)) {
      text += fmt::format("  {}{}\n", start, line);
      start = "  ";
    }
  }
  return text;
}

std::string title_lines(const Explanation& explanation, const ExplainStyle& style) {
  const Dims& dims = explanation.dims;
  const HeadExplanation& first = explanation.heads.front();
  std::string query = fmt::format("query {}", explanation.query);
  if (!explanation.label.empty())
    query += fmt::format(" '{}'", shortened(readable(explanation.label), 24));
  std::vector<std::string> parts{query};
  if (!style.layer.empty()) parts.emplace_back("layer " + visible(style.layer));
  if (dims.batched && dims.B > 1)
    parts.push_back(fmt::format("batch {} of {}", explanation.batch, dims.B));
  const bool shares = dims.H_kv != 0 && dims.H_kv != dims.H;
  if (explanation.one_head) {
    parts.push_back(fmt::format("head {} of {}", first.head, dims.H));
    if (shares)
      parts.push_back(fmt::format("reads key/value head {} of {}", first.kv_head, dims.H_kv));
  } else {
    parts.push_back(counted(dims.H, "heads"));
    if (shares) parts.push_back(counted(dims.H_kv, "key/value heads"));
  }
  if (dims.d_k != 0) parts.push_back(fmt::format("d_k {}", dims.d_k));
  const bool scales = first.has(Stage::scores) && first.has(Stage::scaled) &&
                      !contains(explanation.given, Stage::scaled);
  if (scales) parts.push_back(scale_text(explanation));
  if (explanation.settings.softmax == Softmax::naive) parts.emplace_back("naive softmax");
  if (explanation.other_source) parts.emplace_back("keys and values from another input");
  if (const std::string sees = sees_text(explanation.heads); !sees.empty()) parts.push_back(sees);
  if (explanation.given.any()) parts.emplace_back("given: " + joined_names(explanation.given));

  const std::string text = in_dotted_lines(parts, style.text_style.width);
  return style.text_style.bold(query) + text.substr(query.size()) + "\n";
}

std::string explain_text(const Explanation& explanation, const ExplainStyle& style) {
  return title_lines(explanation, style) + (explanation.one_head
                                                ? one_head_text(explanation, style)
                                                : all_heads_text(explanation, style));
}

} // namespace mha::render
