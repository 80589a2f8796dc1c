#include <mha/render/explain_parts.hpp>
#include <mha/render/label.hpp>
#include <mha/render/table.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace mha::render {

namespace {

/// One column of numbers: a stage at the query.
struct LogitColumn {
  Stage stage;
  std::string title;
};

/// Whether a step changed no unmasked number; in a fully masked row, no number at all.
bool same_where_seen(const HeadExplanation& head, Stage a, Stage b) {
  const std::vector<double>&left = head.values.at(a), &right = head.values.at(b);
  const bool all_masked = head.masked_count() == left.size();
  for (std::size_t j = 0; j < left.size(); ++j)
    if ((all_masked || !head.is_masked(j)) && !(left[j] == right[j])) return false;
  return true;
}

/// The logits from q·k to the input of the exponentials, without steps that changed nothing.
std::vector<LogitColumn> logit_columns(const Explanation& explanation,
                                       const HeadExplanation& head) {
  std::vector<LogitColumn> columns;
  for (Stage stage : {Stage::scores, Stage::scaled, Stage::capped, Stage::biased, Stage::masked}) {
    if (!head.has(stage)) continue;
    if (!columns.empty() && !contains(explanation.given, stage) &&
        same_where_seen(head, columns.back().stage, stage))
      continue;
    std::string title(name_of(stage));
    if (stage == Stage::scores) title = explanation.settings.columns ? "k·q" : "q·k";
    if (!columns.empty() && stage == Stage::biased) title = "+ bias";
    if (!columns.empty() && stage == Stage::masked) title = "+ mask";
    columns.push_back({stage, title});
  }
  return columns;
}

std::string cyan(const TextStyle& text_style, const std::string& text) {
  return text_style.color && !text.empty() ? "\x1b[36m" + text + "\x1b[39m" : text;
}

/// The cells of one column: its keys, the others', the sink's and the summary's.
struct KeyColumn {
  std::string title;
  std::vector<std::string> keys;
  std::string others, sink, summary;
  std::size_t width = 0;

  void measure() {
    width = std::max({display_width(title), others.size(), sink.size(), summary.size()});
    for (const std::string& cell : keys) width = std::max(width, cell.size());
  }
};

double sum_of(const std::vector<double>& values, const std::vector<std::size_t>& keys) {
  return std::accumulate(keys.begin(), keys.end(), 0.0,
                         [&](double sum, std::size_t j) { return sum + values[j]; });
}

class KeyTable {
public:
  KeyTable(const Explanation& the_explanation, const HeadExplanation& the_head,
           const ExplainStyle& the_style)
      : explanation(the_explanation),
        head(the_head),
        style(the_style),
        shown(shown_keys(the_head, the_style.top, the_style.key)) {
    for (const LogitColumn& column : logit_columns(explanation, head))
      add(column.stage, column.title);
    if (head.has(Stage::exp)) add(Stage::exp, "exp");
    if (head.has(Stage::weights)) add(Stage::weights, "α");
    for (std::size_t j : shown.keys) names.push_back(name(j));
    labels_width = 3;
    for (const std::string& text : names)
      labels_width = std::max(labels_width, display_width(text));
    for (const std::string& text : {others_name(), summary_name, sink_name()})
      labels_width = std::max(labels_width, display_width(text));
  }

  std::string text() const {
    if (used() > style.text_style.width) return in_parts();
    std::string lines =
        style.text_style.dim(row("key", [](const KeyColumn& c) { return c.title; })) + "\n";
    for (std::size_t i = 0; i < names.size(); ++i)
      lines += row(names[i], [i](const KeyColumn& c) { return c.keys[i]; }) + weight_bar(i) + "\n";
    if (head.sink) lines += row(sink_name(), [](const KeyColumn& c) { return c.sink; }) + "\n";
    if (!shown.others.empty())
      lines +=
          style.text_style.dim(row(others_name(), [](const KeyColumn& c) { return c.others; })) +
          "\n";
    if (!shown.masked.empty()) lines += style.text_style.dim(trimmed("  " + masked_name())) + "\n";
    if (!summary_name.empty())
      lines +=
          style.text_style.dim(row(summary_name, [](const KeyColumn& c) { return c.summary; })) +
          "\n";
    return lines;
  }

private:
  void add(Stage stage, std::string title) {
    const std::vector<double>& values = head.values.at(stage);
    std::vector<double> listed;
    for (std::size_t j : shown.keys) listed.push_back(values[j]);
    KeyColumn cells;
    cells.title = std::move(title);
    const bool is_exp = stage == Stage::exp, is_alpha = stage == Stage::weights;
    const bool naive = explanation.settings.softmax == Softmax::naive;
    const bool last_logits = logits_stage(head) && !is_exp && !is_alpha;

    std::optional<double> summary, sink;
    if (is_exp && head.has(Stage::row_sum)) summary = head.value(Stage::row_sum);
    if (is_alpha) summary = std::accumulate(values.begin(), values.end(), 0.0);
    if (head.sink && is_exp) sink = head.sink->exp;
    if (head.sink && is_alpha) sink = head.sink->share;
    if (last_logits && is_last_logit_column(stage)) {
      if (!naive && head.has(Stage::row_max)) summary = head.value(Stage::row_max);
      if (head.sink) sink = head.sink->logit;
    }
    for (const std::optional<double>& extra : {summary, sink})
      if (extra) listed.push_back(*extra);

    // One more digit, since the largest exponential is 1: small ones then differ like α.
    const std::size_t digits = style.digits + (is_exp && !naive ? 1 : 0);
    const Rounding rounding(listed, digits);
    for (std::size_t j : shown.keys) cells.keys.push_back(rounding.text(values[j]));
    if ((is_alpha || is_exp) && !shown.others.empty())
      cells.others = rounding.text(sum_of(values, shown.others));
    if (sink) cells.sink = rounding.text(*sink);
    if (summary) {
      cells.summary = rounding.text(*summary);
      if (!summary_name.empty()) summary_name += ", ";
      summary_name += is_exp || is_alpha ? "Σ" : "max";
    }
    cells.measure();
    columns.push_back(std::move(cells));
  }

  bool is_last_logit_column(Stage stage) const {
    const std::vector<LogitColumn> logits = logit_columns(explanation, head);
    return !logits.empty() && logits.back().stage == stage;
  }

  std::string name(std::size_t key) const {
    const std::size_t width = std::to_string(explanation.key_labels.size()).size();
    return pad_left(std::to_string(key), width) + quoted(explanation, key, 16);
  }
  std::string others_name() const {
    return shown.others.empty() ? "" : counted(shown.others.size(), "more keys");
  }
  std::string masked_name() const {
    if (shown.masked.empty()) return "";
    const std::string list = ranges(shown.masked);
    return fmt::format("{} masked{}", counted(shown.masked.size(), "keys"),
                       list.empty() ? "" : ": " + list);
  }
  std::string sink_name() const { return head.sink ? "sink (dropped)" : ""; }

  static std::string trimmed(std::string text) {
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  template <class Cell> std::string row(const std::string& first, const Cell& cell) const {
    std::string text = "  " + pad_right(first, labels_width);
    for (const KeyColumn& column : columns) text += pad_left(cell(column), column.width + 2);
    return trimmed(text);
  }

  /// Columns of the screen that a line takes, without its bar.
  std::size_t used() const {
    std::size_t width = 2 + labels_width;
    for (const KeyColumn& column : columns) width += column.width + 2;
    return width;
  }

  /// The same lines without bars, some columns below others, in a window that is too narrow.
  std::string in_parts() const {
    std::vector<Table::Column> titles{{.title = "key", .shrinks = true, .names = true}};
    for (const KeyColumn& column : columns) titles.push_back({column.title, true});
    Table table(std::move(titles));
    const auto add = [&](const std::string& first, const auto& cell) {
      std::vector<Cell> cells{first};
      for (const KeyColumn& column : columns) cells.push_back(cell(column));
      table.add(std::move(cells));
    };
    for (std::size_t i = 0; i < names.size(); ++i)
      add(names[i], [i](const KeyColumn& c) { return c.keys[i]; });
    if (head.sink) add(sink_name(), [](const KeyColumn& c) { return c.sink; });
    if (!shown.others.empty()) add(others_name(), [](const KeyColumn& c) { return c.others; });
    if (!summary_name.empty()) add(summary_name, [](const KeyColumn& c) { return c.summary; });
    std::string text = table.text(style.text_style, 2);
    if (!shown.masked.empty())
      text += style.text_style.dim(in_lines("  " + masked_name(), style.text_style.width)) + "\n";
    return text;
  }

  /// α as a bar at the end of a line, in the space that is left.
  std::string weight_bar(std::size_t i) const {
    if (!head.has(Stage::weights)) return "";
    const std::size_t before = used() + 2;
    if (before + 4 > style.text_style.width) return "";
    const std::size_t room = std::min<std::size_t>(style.text_style.width - before, 24);
    const std::string blocks = bar(head.values.at(Stage::weights)[shown.keys[i]], room);
    return blocks.empty() ? "" : "  " + cyan(style.text_style, blocks);
  }

  const Explanation& explanation;
  const HeadExplanation& head;
  const ExplainStyle& style;
  ShownKeys shown;
  std::vector<KeyColumn> columns;
  std::vector<std::string> names;
  std::string summary_name;
  std::size_t labels_width = 0;
};

} // namespace

ShownKeys shown_keys(const HeadExplanation& head, std::size_t top, std::optional<std::size_t> key) {
  ShownKeys shown;
  for (std::size_t j = 0; j < head.masked.size(); ++j)
    if (head.masked[j]) shown.masked.push_back(j);
  shown.keys = by_weight(head);
  if (shown.keys.size() > top) {
    shown.others.assign(shown.keys.begin() + static_cast<std::ptrdiff_t>(top), shown.keys.end());
    shown.keys.resize(top);
    if (key && std::erase(shown.others, *key) > 0) shown.keys.push_back(*key);
  } else {
    std::sort(shown.keys.begin(), shown.keys.end());
  }
  return shown;
}

std::string quoted(const Explanation& explanation, std::size_t key, std::size_t width) {
  const std::string& label = explanation.key_labels[key];
  if (label.empty()) return "";
  const Dims& dims = explanation.dims;
  const bool current = key >= dims.past && key < dims.past + dims.S;
  const std::string text = shortened(readable(label), width);
  return current ? fmt::format(" '{}'", text) : " " + text;
}

std::string key_name(const Explanation& explanation, std::size_t key, std::size_t width) {
  return std::to_string(key) + quoted(explanation, key, width);
}

std::string key_table(const Explanation& explanation, const HeadExplanation& head,
                      const ExplainStyle& style) {
  return KeyTable(explanation, head, style).text();
}

std::string key_steps(const Explanation& explanation, const HeadExplanation& head, std::size_t key,
                      std::size_t digits) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view title, Stage stage) {
    parts.push_back(fmt::format("{} {}", title, rounded_alone(head.values.at(stage)[key], digits)));
  };
  for (const LogitColumn& column : logit_columns(explanation, head))
    if (column.stage != Stage::scores) add(name_of(column.stage), column.stage);
  if (head.has(Stage::exp)) add("exp", Stage::exp);
  if (head.has(Stage::weights)) add("α", Stage::weights);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> key_formulas(const Explanation& explanation, const HeadExplanation& head) {
  std::vector<std::string> formulas;
  const Settings& s = explanation.settings;
  std::string before;
  for (const LogitColumn& column : logit_columns(explanation, head)) {
    const bool is_given = contains(explanation.given, column.stage);
    if (!before.empty() && !is_given) {
      if (column.stage == Stage::scaled) {
        std::string product = fmt::format("{:.4g} · {}", explanation.scale, before);
        if (s.scale == ScaleKind::d_k)
          product = fmt::format("{} / √{}", before, explanation.dims.d_k);
        if (s.scale == ScaleKind::d_model)
          product = fmt::format("{} / √{}", before, explanation.dims.d_model);
        if (explanation.temperature != 1)
          product += fmt::format(" · {:.4g}", explanation.temperature);
        formulas.push_back("scaled = " + product);
      }
      if (column.stage == Stage::capped)
        formulas.push_back(fmt::format("capped = {0:g} tanh({1} / {0:g})", s.softcap, before));
    }
    before = column.title == "+ bias"   ? "biased"
             : column.title == "+ mask" ? "masked"
                                        : column.title;
  }
  if (head.has(Stage::exp) && !contains(explanation.given, Stage::exp) && !before.empty())
    formulas.push_back(s.softmax == Softmax::naive ? fmt::format("exp = e^{}", before)
                                                   : fmt::format("exp = e^({} − max)", before));
  if (head.has(Stage::weights) && head.has(Stage::exp) &&
      !contains(explanation.given, Stage::weights))
    formulas.emplace_back("α = exp / Σ exp");
  return formulas;
}

} // namespace mha::render
