#include <mha/render/diagnose.hpp>

#include <mha/render/diff_parts.hpp>
#include <mha/render/json_text.hpp>
#include <mha/render/table.hpp>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

std::string share_of_stage(double error) {
  return error == 0 ? "0" : std::isfinite(error) ? fmt::format("{:.2g}", error) : "∞";
}

/// Lines of text for readers, wrapped.
class Paragraphs {
public:
  explicit Paragraphs(const TextStyle& text_style) : text_style_(text_style) {}

  void paragraph(const std::string& text) {
    for (const std::string& line : wrapped(text, text_style_.width)) out_ += line + "\n";
  }
  /// "  title   words", the words wrapped beside the title.
  void entry(std::string_view title, const std::string& words) {
    constexpr std::size_t width = 12;
    bool first = true;
    for (const std::string& line :
         wrapped(words, std::max<std::size_t>(text_style_.width, 40) - width)) {
      out_ += (first ? text_style_.dim(pad_right("  " + std::string(title), width))
                     : std::string(width, ' ')) +
              line + "\n";
      first = false;
    }
  }
  void title(const std::string& text) { out_ += text_style_.bold(text) + "\n"; }
  void gap() { out_ += "\n"; }
  void add(const std::string& text) { out_ += text; }
  std::string text() { return std::move(out_); }

private:
  const TextStyle& text_style_;
  std::string out_;
};

/// `proved`: with this option alone every stage agrees.
void describe(const Change& change, bool proved, Paragraphs& text) {
  text.title(change.id);
  text.entry("found", fmt::format("the reference {}.", change.did));
  if (!change.reproduction.empty())
    text.entry("reproduce",
               fmt::format("{} {}.", typed(change.reproduction.text()),
                           proved ? "gives the reference's numbers here" : "does the same here"));
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

std::string unexplained_text(const Diagnosis& d) {
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
      share_of_stage(worst->after.error), place_text(d.at), rounded(d.ours, 6),
      rounded(d.theirs, 6),
      d.changes.empty() && d.stages.back().after.agrees
          ? fmt::format(" {} agrees again. The step may be right, and what was saved "
                        "as {} is from another place, or was overwritten.",
                        mha::name_of(d.stages.back().stage), mha::name_of(*d.unexplained))
          : "");
}

/// The type's name in headlines.
std::string rounding_of(const Diagnosis& d) {
  return std::string(mha::name_of(*d.rounded_to));
}

bool is_rounding_alone(const Diagnosis& d) {
  return d.changes.size() == 1 && d.changes[0].id.starts_with("precision.");
}

/// The result in a sentence.
std::string verdict(const Diagnosis& d) {
  const bool harmless = std::any_of(d.stages.begin(), d.stages.end(),
                                    [](const auto& one) { return !one.harmless.empty(); });
  if (d.equal)
    return harmless ? "The reference agrees where it matters: no change is needed."
                    : "The reference agrees with the layer within rounding: nothing to explain.";
  if (is_rounding_alone(d))
    return fmt::format(
        "Nothing is wrong but the rounding: the reference computes in {}, and differs "
        "by {} at most (relative to the stage).",
        rounding_of(d), share_of_stage(d.error_before));
  if (d.explained)
    return fmt::format(
        "{} the reference: the largest error {} {} to {} (relative to the "
        "stage){}.",
        d.changes.size() == 1 ? "One change explains"
                              : fmt::format("{} changes together explain", d.changes.size()),
        d.error_after < d.error_before ? "falls from" : "goes from", share_of_stage(d.error_before),
        share_of_stage(d.error_after),
        d.rounded_to ? fmt::format(", the size of its rounding: it computes in {}", rounding_of(d))
                     : "");
  return d.changes.empty() ? "" : "Part of the difference is explained.";
}

std::string stage_table(const Diagnosis& d, const TextStyle& text_style) {
  const bool changed = !d.changes.empty();
  std::vector<Table::Column> columns{{"stage"}, {changed ? "error before" : "error", true}};
  if (changed) columns.push_back({"after", true});
  const bool remarks = std::any_of(d.stages.begin(), d.stages.end(),
                                   [](const auto& one) { return !one.harmless.empty(); });
  if (remarks) columns.push_back({"", false, true, true});
  Table grid(columns);
  for (const Diagnosis::Compared& one : d.stages) {
    std::vector<Cell> cells{std::string(mha::name_of(one.stage)), share_of_stage(one.before.error)};
    if (changed) cells.push_back(share_of_stage(one.after.error));
    if (remarks) cells.push_back(one.harmless.empty() ? "" : "no effect: " + one.harmless);
    grid.add(std::move(cells));
  }
  return grid.text(text_style);
}

void put_change(JsonText& json, const Change& change) {
  json.object([&] {
    json.member("id", change.id).member("stage", mha::name_of(stage_of(change)));
    json.key("option").words_or_null(typed(change.reproduction.text()));
    json.member("change", "the reference " + change.did).member("cure", change.cure);
  });
}

void put_diagnosis(JsonText& json, const Diagnosis& d) {
  json.object([&] {
    json.member("explained", d.explained).member("equal", d.equal);
    json.key("changes").list(d.changes, [&](const Change& change) { put_change(json, change); });
    json.member("error_before", d.error_before).member("error_after", d.error_after);
    json.key("same_numbers").list(d.same_numbers);
    json.key("runners_up").list(d.runners_up, [&](const Diagnosis::RunnerUp& one) {
      json.object([&] {
        json.key("changes").list(one.ids);
        json.key("option").words_or_null(typed(one.reproduction));
        json.member("error", one.error);
      });
    });
    json.key("unexplained").words_or_null(d.unexplained ? mha::name_of(*d.unexplained) : "");
    json.key("at").list(d.at, [&](const Coordinate& one) { json.value(one.index); });
    json.key("rounding").words_or_null(d.rounded_to ? mha::name_of(*d.rounded_to) : "");
    json.key("hints").list(d.hints);
    json.key("captures").list(d.captures, [&](const OtherStep& one) {
      json.object([&] { json.member("stage", mha::name_of(one.stage)).member("is", one.is); });
    });
    json.key("reading").words_or_null(d.reading);
    json.key("stages").list(d.stages, [&](const Diagnosis::Compared& one) {
      json.object([&] {
        json.member("stage", mha::name_of(one.stage))
            .member("before", one.before.error)
            .member("after", one.after.error);
        json.key("harmless").words_or_null(one.harmless);
      });
    });
  });
}

} // namespace

std::string diagnosis_text(const Diagnosis& d, const TextStyle& text_style) {
  Paragraphs text(text_style);
  if (!d.reading.empty()) text.paragraph(fmt::format("Read so that {}.", d.reading));
  for (const OtherStep& capture : d.captures)
    text.paragraph(fmt::format("{}. It is not compared.", capture.sentence()));
  if (const std::string words = verdict(d); !words.empty() && (!d.equal || d.captures.empty()))
    text.paragraph(words);
  if (!d.equal && !d.changes.empty()) text.gap();
  const bool proved = d.explained && d.changes.size() == 1 && !d.rounded_to;
  for (const Change& change : d.changes) describe(change, proved, text), text.gap();
  if (!d.same_numbers.empty())
    text.paragraph(fmt::format("The same numbers come from {}: nothing in the reference "
                               "distinguishes them.",
                               joined(d.same_numbers, " or ")));
  if (d.unexplained) text.paragraph(unexplained_text(d));
  for (const std::string& hint : d.hints)
    text.paragraph(fmt::format("What the numbers show: {}.", hint));
  if (!d.same_numbers.empty() || d.unexplained || d.changes.empty()) text.gap();
  if (!d.stages.empty()) text.add(stage_table(d, text_style));
  if (!d.runners_up.empty()) {
    std::vector<std::string> list;
    for (const Diagnosis::RunnerUp& one : d.runners_up)
      list.push_back(fmt::format("{} ({})", joined(one.ids, " with "), share_of_stage(one.error)));
    text.gap();
    for (const std::string& line :
         wrapped_list(d.explained ? "next best, with the error that they leave"
                                  : "closest, with the error that they leave",
                      list, text_style.width))
      text.add(text_style.dim(line) + "\n");
  }
  return text.text();
}

std::string diagnosis_json(const std::vector<LayerDiagnosis>& layers) {
  JsonText json;
  if (layers.size() == 1)
    put_diagnosis(json, layers[0].diagnosis);
  else
    json.object(
        [&] {
          for (const LayerDiagnosis& one : layers)
            json.key(one.layer.empty()      ? "model"
                     : one.layer == "embed" ? one.layer
                                            : "layers." + one.layer),
                put_diagnosis(json, one.diagnosis);
        },
        on_lines);
  return json.take() + "\n";
}

} // namespace mha::render
