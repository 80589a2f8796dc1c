#include <mha/render/explain_parts.hpp>
#include <mha/render/table.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mha::render {

namespace {

/// A table whose cells are text, right-aligned.
struct TextColumn {
  std::string title;
  std::vector<std::string> cells;

  std::size_t width() const {
    std::size_t widest = display_width(title);
    for (const std::string& cell : cells) widest = std::max(widest, display_width(cell));
    return widest;
  }
};

/// One number per head; "" where a head has none.
TextColumn number_column(std::string title, const std::vector<std::optional<double>>& values,
                         std::size_t digits) {
  std::vector<double> known;
  for (const std::optional<double>& value : values)
    if (value) known.push_back(*value);
  const Rounding rounding(known, digits);
  TextColumn column{std::move(title), {}};
  for (const std::optional<double>& value : values)
    column.cells.push_back(value ? rounding.text(*value) : "");
  return column;
}

/// The heads' columns: number, key/value head, lengths, share of the output, what the sink takes.
/// A line for b_o, if there is one: the shares sum to 1 with it.
std::vector<TextColumn> head_columns(const Explanation& explanation, const ExplainStyle& style) {
  const std::vector<HeadExplanation>& heads = explanation.heads;
  const bool bias = explanation.b_o_share.has_value();
  std::vector<TextColumn> columns{{"head", {}}};
  for (const HeadExplanation& head : heads) columns[0].cells.push_back(std::to_string(head.head));
  if (bias) columns[0].cells.emplace_back("b_o");
  if (explanation.dims.H_kv != 0 && explanation.dims.H_kv != explanation.dims.H) {
    columns.push_back({"k/v", {}});
    for (const HeadExplanation& head : heads)
      columns.back().cells.push_back(std::to_string(head.kv_head));
    if (bias) columns.back().cells.emplace_back("");
  }
  using Number = std::optional<double>;
  const auto add = [&](std::string title, Number of_bias, auto value) {
    std::vector<Number> values;
    for (const HeadExplanation& head : heads) values.push_back(value(head));
    if (std::none_of(values.begin(), values.end(),
                     [](const Number& cell) { return cell.has_value(); }))
      return;
    if (bias) values.push_back(of_bias);
    columns.push_back(number_column(std::move(title), values, style.digits));
  };
  const auto norm = [](const HeadExplanation& head, Stage stage) {
    return head.has(stage) ? Number(norm_of(head.values.at(stage))) : Number();
  };
  add("‖head_out‖", {}, [&](const HeadExplanation& head) { return norm(head, Stage::head_out); });
  for (const Stage stage : {Stage::head_norm, Stage::gated})
    add(fmt::format("‖{}‖", name_of(stage)), {},
        [&](const HeadExplanation& head) { return norm(head, stage); });
  if (explanation.has_W_o)
    add("‖result‖", bias ? Number(norm_of(explanation.b_o)) : Number(),
        [&](const HeadExplanation& head) { return norm(head, Stage::head_result); });
  add("share", explanation.b_o_share, [](const HeadExplanation& head) { return head.share; });
  add("sink", {},
      [](const HeadExplanation& head) { return head.sink ? head.sink->share : Number(); });
  return columns;
}

/// The keys with each head's largest weights, ranks side by side, as many as fit.
std::vector<std::vector<std::string>> top_weights(const Explanation& explanation,
                                                  const ExplainStyle& style, std::size_t room) {
  std::vector<std::vector<std::string>> rows(explanation.heads.size());
  std::vector<std::vector<std::size_t>> ranked;
  for (const HeadExplanation& head : explanation.heads) ranked.push_back(by_weight(head));
  for (std::size_t rank = 0, used = 0; rank < style.top; ++rank) {
    std::size_t name_width = 0, number_width = 0;
    std::vector<std::string> names(rows.size()), alphas(rows.size());
    for (std::size_t h = 0; h < rows.size(); ++h) {
      if (rank >= ranked[h].size()) continue;
      const std::vector<double>& alpha = explanation.heads[h].values.at(Stage::weights);
      names[h] = key_name(explanation, ranked[h][rank], 10);
      alphas[h] = Rounding(alpha, style.digits).text(alpha[ranked[h][rank]]);
      name_width = std::max(name_width, display_width(names[h]));
      number_width = std::max(number_width, alphas[h].size());
    }
    used += name_width + 1 + number_width + (rank == 0 ? 0 : 3);
    if (name_width == 0 || (rank > 0 && used > room)) break;
    for (std::size_t h = 0; h < rows.size(); ++h)
      rows[h].push_back(names[h].empty() ? ""
                                         : pad_right(names[h], name_width) + " " +
                                               pad_left(alphas[h], number_width));
  }
  return rows;
}

bool is_all_masked(const HeadExplanation& head) {
  return !head.masked.empty() && head.masked_count() == head.masked.size();
}

/// The columns in several blocks below each other, for a window that is too narrow for a head's
/// keys beside its numbers.
std::string head_parts(const Explanation& explanation, const ExplainStyle& style,
                       const std::vector<TextColumn>& columns) {
  const bool has_weights = explanation.heads.front().has(Stage::weights);
  std::vector<Table::Column> titles;
  for (const TextColumn& column : columns)
    titles.push_back({.title = column.title, .right = true, .names = titles.empty()});
  if (has_weights) titles.push_back({.title = "largest α", .shrinks = true});
  Table table(std::move(titles));
  constexpr std::size_t before = 8; // "  head  "
  const std::size_t room = style.text_style.width > before ? style.text_style.width - before : 0;
  const auto weights =
      has_weights ? top_weights(explanation, style, room) : std::vector<std::vector<std::string>>();
  for (std::size_t h = 0; h < columns[0].cells.size(); ++h) {
    std::vector<Cell> cells;
    for (const TextColumn& column : columns) cells.push_back(column.cells[h]);
    std::string looks_at;
    if (h < explanation.heads.size() && is_all_masked(explanation.heads[h]))
      looks_at = "every key is masked";
    else if (has_weights && h < weights.size())
      looks_at = fmt::format("{}", fmt::join(weights[h], "   "));
    if (has_weights) cells.push_back(looks_at);
    table.add(std::move(cells));
  }
  return table.text(style.text_style, 2);
}

std::string head_table(const Explanation& explanation, const ExplainStyle& style) {
  const std::vector<TextColumn> columns = head_columns(explanation, style);
  std::size_t used = 2;
  for (const TextColumn& column : columns)
    used += column.width() + (&column == &columns[0] ? 0 : 2);
  std::vector<std::vector<std::string>> weights(explanation.heads.size());
  const bool has_weights = explanation.heads.front().has(Stage::weights);
  if (has_weights)
    weights =
        top_weights(explanation, style,
                    style.text_style.width > used + 3 ? style.text_style.width - used - 3 : 0);
  std::size_t widest = has_weights ? display_width("largest α") : 0;
  for (const std::vector<std::string>& list : weights)
    if (!list.empty()) widest = std::max(widest, display_width(list.front()));
  if (used + (has_weights ? 3 + widest : 0) > style.text_style.width)
    return head_parts(explanation, style, columns);

  std::string header = "  ", text;
  for (const TextColumn& column : columns)
    header += pad_left(column.title, column.width() + (&column == &columns[0] ? 0 : 2));
  if (has_weights) header += "   largest α";
  text += style.text_style.dim(header) + "\n";
  for (std::size_t h = 0; h < columns[0].cells.size(); ++h) {
    std::string line = "  ";
    for (const TextColumn& column : columns)
      line += pad_left(column.cells[h], column.width() + (&column == &columns[0] ? 0 : 2));
    if (h < explanation.heads.size()) {
      const HeadExplanation& head = explanation.heads[h];
      for (const std::string& weight : weights[h])
        if (!weight.empty()) line += "   " + weight;
      if (is_all_masked(head)) line += "   every key is masked";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

/// The notes of all heads; one that several heads share appears once.
std::vector<Message> all_notes(const Explanation& explanation) {
  std::vector<Message> notes;
  for (const HeadExplanation& head : explanation.heads)
    for (const Message& note : head.notes) {
      std::vector<std::size_t> sharing;
      for (const HeadExplanation& other : explanation.heads)
        if (is_one_of(note, other.notes)) sharing.push_back(other.head);
      if (sharing.front() != head.head) continue;
      const std::string list = ranges(sharing, 8);
      notes.push_back(sharing.size() == explanation.heads.size()
                          ? note
                          : message("head{} {}: {}", sharing.size() == 1 ? "" : "s",
                                    list.empty() ? fmt::format("{} of {}", sharing.size(),
                                                               explanation.heads.size())
                                                 : list,
                                    note));
    }
  return notes;
}

} // namespace

std::string all_heads_text(const Explanation& explanation, const ExplainStyle& style) {
  VectorGrid grid(style.text_style, style.digits);
  std::vector<std::size_t> before, after;
  const auto add = [&](std::vector<std::size_t>& part, Stage stage, std::string label) {
    if (explanation.has(stage))
      part.push_back(grid.add(std::move(label), explanation.values.at(stage)));
  };
  add(before, Stage::x, "x");
  add(after, Stage::concat, "concat");
  if (!explanation.b_o.empty()) after.push_back(grid.add("b_o", explanation.b_o));
  add(after, Stage::output, "output");
  add(after, Stage::residual, "X + output");
  grid.arrange();
  const auto lines = [&](const std::vector<std::size_t>& part) {
    std::string text;
    for (std::size_t index : part) text += grid.line(index) + "\n";
    return text;
  };

  std::string text;
  if (!before.empty()) text += heading(style.text_style, "The token", {}) + lines(before);
  text +=
      heading(style.text_style, "Each head", key_formulas(explanation, explanation.heads.front()));
  text += head_table(explanation, style) + note_lines(style.text_style, all_notes(explanation));
  if (after.empty()) return text;

  std::vector<std::string> formulas;
  if (explanation.has(Stage::output) && !contains(explanation.given, Stage::output))
    formulas.push_back("output = " + projection(explanation, "concat", "W_o", explanation.has_W_o,
                                                "b_o", explanation.has_b_o));
  text += heading(style.text_style, explanation.has_W_o ? "Join and project" : "Join", formulas);
  std::vector<std::string> names;
  for (std::size_t h = 0; h < explanation.dims.H; ++h) names.push_back(fmt::format("head {}", h));
  if (explanation.has(Stage::concat))
    if (const std::string titles = grid.titles(names, explanation.dims.d_v); !titles.empty())
      text += titles + "\n";
  return text + lines(after);
}

} // namespace mha::render
