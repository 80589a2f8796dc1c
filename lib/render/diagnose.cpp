#include <mha/render/diagnose.hpp>

#include <mha/render/diff.hpp>
#include <mha/render/grid.hpp>
#include <mha/render/numbers.hpp>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

std::string error_text(double error) {
  return error == 0 ? "0" : std::isfinite(error) ? fmt::format("{:.2g}", error) : "∞";
}

std::string joined(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? std::string(last) : ", ") + words[i];
  return text;
}

/// Lines of text for eyes, wrapped.
class Text {
public:
  explicit Text(const Look& look) : look_(look) {}

  void paragraph(const std::string& text) {
    for (const std::string& line : wrapped(text, look_.width)) out_ += line + "\n";
  }
  /// "  title   words", the words wrapped beside the title.
  void entry(std::string_view title, const std::string& words) {
    constexpr std::size_t width = 12;
    bool first = true;
    for (const std::string& line : wrapped(words, std::max<std::size_t>(look_.width, 40) - width)) {
      out_ += (first ? look_.dim(pad_right("  " + std::string(title), width))
                     : std::string(width, ' ')) +
              line + "\n";
      first = false;
    }
  }
  void title(const std::string& text) { out_ += look_.bold(text) + "\n"; }
  void gap() { out_ += "\n"; }
  void add(const std::string& text) { out_ += text; }
  std::string text() { return std::move(out_); }

private:
  const Look& look_;
  std::string out_;
};

void describe(const Change& change, Text& text) {
  text.title(change.id);
  text.entry("found", fmt::format("the reference {}.", change.did));
  if (!change.option.empty())
    text.entry("reproduce", fmt::format("{} gives the reference's numbers here.", change.option));
  text.entry("to fix", fmt::format("in the other implementation, {}.", change.cure));
}

/// "scores, and everything before it": the last stage that agrees before the first that does not.
std::string agrees_up_to(const Diagnosis& d) {
  std::string last;
  for (const Diagnosis::Compared& one : d.stages) {
    if (one.stage == *d.unexplained) break;
    last = mha::name_of(one.stage);
  }
  return last;
}

std::string unexplained_text(const Layer& layer, const Diagnosis& d) {
  const auto worst = std::find_if(d.stages.begin(), d.stages.end(),
                                  [&](const auto& one) { return one.stage == *d.unexplained; });
  const std::string last = agrees_up_to(d);
  const std::string found = d.changes.empty() ? "" : " with the changes above";
  return fmt::format(
      "Nothing explains it{}: {}{} is the first stage that {}differs, by {} "
      "(relative), most at {}: "
      "{} here, {} in the reference.{}",
      d.changes.empty() ? "" : " all",
      last.empty() ? "" : fmt::format("the reference agrees up to {}{}; ", last, found),
      mha::name_of(*d.unexplained), d.changes.empty() ? "" : "still ",
      error_text(worst->after.error), place_text(layer, *d.unexplained, d.at), rounded(d.ours, 6),
      rounded(d.theirs, 6),
      d.changes.empty() && d.stages.back().after.agrees
          ? fmt::format(" {} agrees again: the step may be right, and what was saved "
                        "as {} is from another place, or was overwritten.",
                        mha::name_of(d.stages.back().stage), mha::name_of(*d.unexplained))
          : "");
}

std::string stage_table(const Diagnosis& d, const Look& look) {
  const bool changed = !d.changes.empty();
  std::vector<Grid::Column> columns{{"stage"}, {changed ? "error before" : "error", true}};
  if (changed) columns.push_back({"after", true});
  const bool remarks = std::any_of(d.stages.begin(), d.stages.end(),
                                   [](const auto& one) { return !one.harmless.empty(); });
  if (remarks) columns.push_back({"", false, true, true});
  Grid grid(columns);
  for (const Diagnosis::Compared& one : d.stages) {
    std::vector<std::string> cells{std::string(mha::name_of(one.stage)),
                                   error_text(one.before.error)};
    if (changed) cells.push_back(error_text(one.after.error));
    if (remarks) cells.push_back(one.harmless.empty() ? "" : "no effect: " + one.harmless);
    grid.add(std::move(cells));
  }
  return grid.text(look);
}

std::string json_number(double value) {
  std::string text;
  NumberWriter(Dialect::json, std::nullopt).append(text, value);
  return text;
}

template <class List, class F> std::string json_list(const List& list, F f) {
  std::string text;
  for (const auto& element : list) text += (text.empty() ? "" : ", ") + f(element);
  return "[" + text + "]";
}

std::string json_or_null(const std::string& option) {
  return option.empty() ? "null" : json_quoted(option);
}

std::string change_json(const Change& change) {
  return fmt::format("{{\"id\": {}, \"stage\": {}, \"option\": {}, \"change\": {}, \"cure\": {}}}",
                     json_quoted(change.id), json_quoted(mha::name_of(stage_of(change))),
                     json_or_null(change.option), json_quoted("the reference " + change.did),
                     json_quoted(change.cure));
}

std::string object(const Diagnosis& d) {
  const auto quoted = [](const std::string& word) { return json_quoted(word); };
  return fmt::format(
      "{{\"explained\": {}, \"equal\": {}, \"changes\": {}, \"error_before\": {}, \"error_after\": "
      "{}, \"same_numbers\": {}, \"runners_up\": {}, \"unexplained\": {}, \"at\": {}, \"reading\": "
      "{}, \"stages\": {}}}",
      d.explained, d.equal, json_list(d.changes, change_json), json_number(d.error_before),
      json_number(d.error_after), json_list(d.same_numbers, quoted),
      json_list(d.runners_up,
                [&](const Diagnosis::RunnerUp& one) {
                  return fmt::format("{{\"changes\": {}, \"option\": {}, \"error\": {}}}",
                                     json_list(one.ids, quoted), json_or_null(one.option),
                                     json_number(one.error));
                }),
      d.unexplained ? json_quoted(mha::name_of(*d.unexplained)) : "null",
      json_list(d.at, [](std::size_t i) { return std::to_string(i); }), json_or_null(d.reading),
      json_list(d.stages, [](const Diagnosis::Compared& one) {
        return fmt::format("{{\"stage\": {}, \"before\": {}, \"after\": {}, \"harmless\": {}}}",
                           json_quoted(mha::name_of(one.stage)), json_number(one.before.error),
                           json_number(one.after.error),
                           one.harmless.empty() ? "null" : json_quoted(one.harmless));
      }));
}

} // namespace

std::string diagnosis_text(const Layer& layer, const Diagnosis& d, const Look& look) {
  Text text(look);
  if (!d.reading.empty()) text.paragraph(fmt::format("Read so that {}.", d.reading));
  const bool harmless = std::any_of(d.stages.begin(), d.stages.end(),
                                    [](const auto& one) { return !one.harmless.empty(); });
  if (d.equal)
    text.paragraph(harmless ? "The reference agrees where it matters: no change is needed."
                            : "The reference agrees with the layer within rounding: nothing to "
                              "explain.");
  else if (d.explained)
    text.paragraph(fmt::format("{} the reference: the largest error falls from {} to {} (relative "
                               "to the stage).",
                               d.changes.size() == 1
                                   ? "One change explains"
                                   : fmt::format("{} changes together explain", d.changes.size()),
                               error_text(d.error_before), error_text(d.error_after)));
  else if (!d.changes.empty())
    text.paragraph("Part of the difference is explained.");
  if (!d.equal && !d.changes.empty()) text.gap();
  for (const Change& change : d.changes) describe(change, text), text.gap();
  if (!d.same_numbers.empty())
    text.paragraph(fmt::format("The same numbers come from {}: nothing in the reference tells them "
                               "apart.",
                               joined(d.same_numbers, " or ")));
  if (d.unexplained) text.paragraph(unexplained_text(layer, d));
  if (!d.same_numbers.empty() || d.unexplained || d.changes.empty()) text.gap();
  text.add(stage_table(d, look));
  if (!d.runners_up.empty()) {
    std::vector<std::string> list;
    for (const Diagnosis::RunnerUp& one : d.runners_up)
      list.push_back(fmt::format("{} ({})", joined(one.ids, " with "), error_text(one.error)));
    text.gap();
    for (const std::string& line :
         wrapped_list(d.explained ? "next best, with the error that they leave"
                                  : "closest, with the error that they leave",
                      list, look.width))
      text.add(look.dim(line) + "\n");
  }
  return text.text();
}

std::string diagnosis_json(const std::vector<LayerDiagnosis>& layers) {
  if (layers.size() == 1) return object(layers[0].diagnosis) + "\n";
  std::string out = "{\n";
  for (std::size_t i = 0; i < layers.size(); ++i)
    out += fmt::format("{}: {}{}\n", json_quoted("layers." + layers[i].layer),
                       object(layers[i].diagnosis), i + 1 < layers.size() ? "," : "");
  return out + "}\n";
}

} // namespace mha::render
