#include <mha/render/explain_parts.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

/// Values of at most this many keys are written out; the others are summed up.
constexpr std::size_t listed_values = 5;

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

/// The text for one head: the lines of vectors are collected first (`build`), so that all of them
/// line up, and put between the other parts afterwards.
class HeadStory {
public:
  HeadStory(const Explanation& the_explanation, const ExplainStyle& the_style)
      : explanation(the_explanation),
        head(the_explanation.heads.front()),
        style(the_style),
        grid(the_style.text_style, the_style.digits) {
    add_token();
    add_values();
    add_result_steps();
    add_output();
    grid.arrange();
  }

  std::string text() const {
    std::string text;
    if (!token_lines.empty())
      text += heading(style.text_style, projections().empty() ? "The query" : "Project",
                      projections()) +
              lines(token_lines);
    if (head.has(Stage::weights) || logits_stage(head)) {
      text += heading(style.text_style, head.has(Stage::scores) ? "Compare with keys" : "Weights",
                      key_formulas(explanation, head));
      text += key_table(explanation, head, style) + dot_product() +
              note_lines(style.text_style, head.notes);
    }
    if (!value_lines.empty())
      text += heading(style.text_style, "Weigh the values", weighing()) + lines(value_lines);
    if (!result_lines.empty())
      text += heading(style.text_style, head.has(Stage::gated) ? "Gate the result"
                                                               : "Normalise the result",
                      explanation.result_steps) +
              lines(result_lines);
    if (!output_lines.empty())
      text +=
          heading(style.text_style, explanation.has_W_o ? "Join and project" : "Join", joining()) +
          lines(output_lines);
    return text + closing();
  }

private:
  void add(std::vector<std::size_t>& part, std::string label, std::vector<double> numbers,
           bool with_norm = true) {
    part.push_back(grid.add(std::move(label), std::move(numbers), with_norm));
  }
  std::string lines(const std::vector<std::size_t>& part) const {
    std::string text;
    for (std::size_t index : part) text += grid.line(index) + "\n";
    return text;
  }

  // The token, its query and the query's later forms.
  void add_token() {
    for (Stage stage : {Stage::x, Stage::c_q})
      if (explanation.has(stage))
        add(token_lines, std::string(name_of(stage)), explanation.values.at(stage));
    for (const Stage stage : explanation.query_steps)
      if (head.has(stage)) add(token_lines, std::string(name_of(stage)), head.values.at(stage));
  }

  std::vector<std::string> projections() const {
    std::vector<std::string> formulas;
    const auto computed = [&](Stage stage) {
      return head.has(stage) && !contains(explanation.given, stage);
    };
    if (explanation.has(Stage::x) && explanation.settings.input_norm != InputNorm::none &&
        !contains(explanation.given, Stage::x))
      formulas.emplace_back("x = norm(X)");
    const bool compressed = explanation.has(Stage::c_q), normed = head.has(Stage::q_norm);
    if (compressed && !contains(explanation.given, Stage::c_q))
      formulas.push_back(
          fmt::format("c_q = norm({})", projection(explanation, "x", "W_q_a", true, "", false)));
    const auto clipped = [&](bool here, const std::string& formula) {
      return here && explanation.settings.clip_qkv > 0 ? "clip(" + formula + ")" : formula;
    };
    if (computed(Stage::q))
      formulas.emplace_back(
          "q = " + clipped(!normed, projection(explanation, compressed ? "c_q" : "x", "W_q",
                                               explanation.has_W_q, "b_q", explanation.has_b_q)));
    std::string_view before = "q";
    for (const Stage stage : explanation.query_steps) {
      if (stage == Stage::q || !head.has(stage)) continue;
      if (computed(stage))
        formulas.push_back(fmt::format(
            "{} = {}", name_of(stage),
            stage == Stage::q_rope ? fmt::format("rotate({})", before)
                                   : clipped(true, fmt::format("norm({})", before))));
      before = name_of(stage);
    }
    return formulas;
  }

  /// The query as the scores see it.
  const std::vector<double>* last_query() const {
    const std::vector<double>* last = nullptr;
    for (const Stage stage : explanation.query_steps)
      if (head.has(stage)) last = &head.values.at(stage);
    return last;
  }

  /// One score multiplied out, where the head is narrow or the key is chosen: "q·k of key 2:
  /// 0.31·1.00 + 1.20·0.50 = 0.91". Of a chosen key also what follows from it.
  std::string dot_product() const {
    const std::vector<double>* q = last_query();
    const std::vector<std::size_t> keys = by_weight(head);
    const std::string after = style.key ? steps_after_score() : "";
    if (q == nullptr || head.keys.empty() || !head.has(Stage::scores)) return after;
    if ((keys.empty() && !style.key) || contains(explanation.given, Stage::scores)) return after;
    const std::size_t d_k = q->size(), j = style.key.value_or(keys.empty() ? 0 : keys.front());
    const double score = head.values.at(Stage::scores)[j];
    const std::vector<double> k(head.keys.begin() + static_cast<std::ptrdiff_t>(j * d_k),
                                head.keys.begin() + static_cast<std::ptrdiff_t>((j + 1) * d_k));
    if (!style.key && (d_k == 0 || d_k > 4 || !all_finite(*q) || !all_finite(k))) return "";
    std::string sum;
    const auto factor = [&](double value) {
      const std::string text = rounded_alone(value, style.digits);
      return text[0] == '-' ? "(" + text + ")" : text;
    };
    for (std::size_t i = 0; i < d_k; ++i)
      sum += fmt::format("{}{}·{}", i == 0 ? "" : " + ", factor((*q)[i]), factor(k[i]));
    const std::string text =
        fmt::format("{} of key {}: {} = {}", explanation.settings.columns ? "k·q" : "q·k", j, sum,
                    rounded_alone(score, style.digits));
    if (style.key) return in_indented_lines(text) + after;
    return display_width(text) + 2 > style.text_style.width ? "" : in_indented_lines(text);
  }
  std::string in_indented_lines(const std::string& text) const {
    std::string lines;
    for (const std::string& line :
         wrapped(text, std::max<std::size_t>(style.text_style.width, 22) - 2))
      lines += style.text_style.dim("  " + line) + "\n";
    return lines;
  }
  /// "key 2: scaled 0.693, exp 0.25, α 0.167", and whether it is masked.
  std::string steps_after_score() const {
    return in_indented_lines(fmt::format("key {}: {}{}", *style.key,
                                         key_steps(explanation, head, *style.key, style.digits),
                                         head.is_masked(*style.key) ? "; masked" : ""));
  }

  // What the keys with the largest weights add to head_out, then the sum.
  void add_values() {
    if (!head.has(Stage::head_out)) return;
    const bool computed = !contains(explanation.given, Stage::head_out);
    if (computed && head.has(Stage::weights) && !head.value_rows.empty()) {
      ShownKeys shown = shown_keys(head, std::min(style.top, listed_values), style.key);
      const std::vector<double>& alpha = head.values.at(Stage::weights);
      const Rounding rounding(alpha, style.digits);
      for (std::size_t j : shown.keys)
        add(value_lines,
            fmt::format("{} · {} of {}", rounding.text(alpha[j]), explanation.value_rows,
                        key_name(explanation, j, 12)),
            head.contribution(j), false);
      if (!shown.others.empty()) {
        std::vector<double> sum(head.values.at(Stage::head_out).size());
        for (std::size_t j : shown.others) {
          const std::vector<double> part = head.contribution(j);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        }
        add(value_lines, counted(shown.others.size(), "more keys"), std::move(sum), false);
      }
    }
    add(value_lines, "head_out", head.values.at(Stage::head_out));
  }

  std::vector<std::string> weighing() const {
    if (contains(explanation.given, Stage::head_out) || !head.has(Stage::weights)) return {};
    const std::string_view v = explanation.value_rows;
    return {explanation.settings.columns ? fmt::format("head_out = Σ {} α", v)
                                         : fmt::format("head_out = Σ α {}", v)};
  }

  /// A lone head that nothing follows.
  bool is_the_output() const {
    return explanation.dims.H == 1 && !explanation.has_W_o && !explanation.has_b_o;
  }

  // The head's result on its way to W_o: its norm, its gate.
  void add_result_steps() {
    for (const Stage stage : {Stage::head_norm, Stage::gate, Stage::gated})
      if (head.has(stage)) add(result_lines, std::string(name_of(stage)), head.values.at(stage));
  }

  // The head's part of the output, the others', b_o, the output.
  void add_output() {
    if (!explanation.has(Stage::output) || !head.has(Stage::head_result)) return;
    const std::vector<double>&output = explanation.values.at(Stage::output),
          &part = head.values.at(Stage::head_result);
    if (!is_the_output()) add(output_lines, "head_result", part);
    const bool computed =
        !contains(explanation.given, Stage::output) && part.size() == output.size();
    if (computed && explanation.dims.H > 1) {
      std::vector<double> others(output.size());
      for (std::size_t i = 0; i < others.size(); ++i)
        others[i] = output[i] - part[i] - (explanation.b_o.empty() ? 0 : explanation.b_o[i]);
      add(output_lines,
          explanation.dims.H == 2 ? "+ the other head"
                                  : fmt::format("+ {} other heads", explanation.dims.H - 1),
          std::move(others));
    }
    if (computed && explanation.has_b_o) add(output_lines, "+ b_o", explanation.b_o);
    add(output_lines, "output", output);
    if (explanation.has(Stage::residual))
      add(output_lines, "X + output", explanation.values.at(Stage::residual));
  }

  std::vector<std::string> joining() const {
    const std::size_t d_v = explanation.dims.d_v, first = head.head * d_v;
    const bool columns = explanation.settings.columns;
    const std::string range =
        d_v == 1 ? fmt::format(" {}", first) : fmt::format("s {}–{}", first, first + d_v - 1);
    const std::string place =
        fmt::format("{} is {}{} of concat", name_of(explanation.multiplied),
                    columns ? "row" : "column", range);
    if (is_the_output())
      return {fmt::format("output = {}: one head, no W_o", name_of(explanation.multiplied))};
    if (!explanation.has_W_o) return {place, "no W_o"};
    return {place, fmt::format("times {}{} of W_o", columns ? "column" : "row", range)};
  }

  /// The head's share of the output.
  std::string closing() const {
    if (!head.relative_norm || !head.share || is_the_output()) return "";
    const double part = norm_of(head.values.at(Stage::head_result)),
                 whole = norm_of(explanation.values.at(Stage::output));
    std::string text = "\n";
    for (const std::string& line : wrapped(
             fmt::format(
                 "Head {} adds a vector of length {} to an output of length {}: {:.1f} % of it, "
                 "measured along the output.",
                 head.head, rounded_alone(part, style.digits), rounded_alone(whole, style.digits),
                 100 * *head.share),
             style.text_style.width))
      text += line + "\n";
    return text;
  }

  const Explanation& explanation;
  const HeadExplanation& head;
  const ExplainStyle& style;
  VectorGrid grid;
  std::vector<std::size_t> token_lines, value_lines, result_lines, output_lines;
};

} // namespace

std::string one_head_text(const Explanation& explanation, const ExplainStyle& style) {
  return HeadStory(explanation, style).text();
}

} // namespace mha::render
