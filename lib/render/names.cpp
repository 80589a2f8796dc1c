#include <mha/render/stages.hpp>

#include <mha/layer/names.hpp>
#include <mha/layer/settings.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/render/table.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

namespace mha::render {

namespace {

/// A tensor, or a setting, which has values in place of a shape.
struct NameRow {
  std::string_view kind;
  std::string_view name;
  std::string shape;
  std::string_view text, axes, aliases;
};

/// The tensors of a layer, and the labels of tokens, which are text and thus not among
/// tensor_names().
std::vector<NameRow> tensor_rows() {
  std::vector<NameRow> rows;
  for (const TensorInfo& info : tensor_names())
    rows.push_back({"tensor", info.name, shape_text(info), info.text, info.axes, info.aliases});
  rows.push_back(
      {"tensor", "tokens", "T", "labels of the queries: a list of text, or numbers", "T", ""});
  rows.push_back({"tensor", "key_tokens", "S", "labels of the keys, where they differ", "S", ""});
  return rows;
}

std::vector<NameRow> setting_rows() {
  std::vector<NameRow> rows;
  for (const SettingInfo& info : settings_table())
    rows.push_back({"setting", info.name, std::string(info.values), info.text, "", info.aliases});
  return rows;
}

/// Which of the two kinds of rows a table is of: it has the columns of these.
enum class Of : std::uint8_t { tensors, settings, both };

Table names_table(const std::vector<NameRow>& rows, Of of) {
  using In = Table::In;
  const auto column = [](const char* title, bool is_shown,
                         std::function<Cell(const NameRow&)> get) {
    return ColumnOf<NameRow>{{.title = title, .in = is_shown ? In::fields : In::none},
                             std::move(get)};
  };
  const bool tensors = of != Of::settings, settings = of != Of::tensors;
  const auto shape_of = [](std::string_view kind) {
    return [kind](const NameRow& row) { return row.kind == kind ? Cell(row.shape) : Cell(); };
  };
  return table_of(
      rows, ColumnsOf<NameRow>{
                column("kind", of == Of::both, [](const NameRow& row) { return Cell(row.kind); }),
                column("name", true, [](const NameRow& row) { return Cell(row.name); }),
                column("shape", tensors, shape_of("tensor")),
                column("values", settings, shape_of("setting")),
                column("text", true, [](const NameRow& row) { return Cell(row.text); }),
                column("axes", tensors, [](const NameRow& row) { return Cell(row.axes); }),
                column("aliases", true, [](const NameRow& row) {
                  const std::vector<std::string_view> words = words_of(row.aliases);
                  return Cell::list({words.begin(), words.end()});
                })});
}

constexpr std::string_view meanings_of_letters =
    "B batch · T queries · S keys · P past keys · H query heads · H_kv key/value heads · d_in, "
    "d_model widths of the inputs · d_k, d_v widths of one head";
constexpr std::string_view spelling_rules =
    "Capitals, `_`, `-` and `.` do not matter where no other name differs by them (WQ, Mask, "
    "keyPaddingMask); X, Q, K, V and q, k, v are different names. Every stage may also be given: "
    "`mha-inspect stages` lists them.";

std::string names_report(const TextStyle& text_style) {
  const auto wrapped_column = [](std::string title) {
    return Table::Column{.title = std::move(title), .shrinks = true, .wraps = true};
  };
  Table tensors({{"tensor"}, wrapped_column("shape"), wrapped_column("meaning")});
  Table settings({{"setting"}, wrapped_column("values"), wrapped_column("meaning")});
  Table aliases({{""}, wrapped_column("")});
  const auto add_aliases = [&](std::string_view name, std::string_view others) {
    if (!others.empty()) aliases.add({std::string(name), std::string(others)});
  };
  for (const NameRow& row : tensor_rows()) {
    tensors.add({std::string(row.name), std::string(row.shape), std::string(row.text)});
    add_aliases(row.name, row.aliases);
  }
  for (const SettingInfo& info : settings_table()) {
    const bool is_boolean = info.kind == SettingKind::boolean;
    settings.add({std::string(info.name), std::string(is_boolean ? "true|false" : info.values),
                  std::string(info.text)});
    add_aliases(info.name, info.aliases);
  }
  std::string out = tensors.text(text_style) + "\n";
  for (const std::string& line : wrapped(meanings_of_letters, text_style.width))
    out += text_style.dim(line) + "\n";
  out += "\n" + settings.text(text_style) + "\n" + text_style.bold("also called") + "\n" +
         aliases.text(text_style, 2) + "\n";
  for (const std::string& line : wrapped(spelling_rules, text_style.width)) out += line + "\n";
  return out;
}

std::string names_json() {
  constexpr Spread one_row_per_line{"\n    ", "\n    ", "\n  "};
  JsonText json;
  json.open_object(indented);
  json.key("tensors"), names_table(tensor_rows(), Of::tensors).put(json, one_row_per_line);
  json.key("settings"), names_table(setting_rows(), Of::settings).put(json, one_row_per_line);
  json.close();
  json.end_line();
  return json.take();
}

std::string names_markdown() {
  std::string out = "| name | shape | meaning | also called |\n|---|---|---|---|\n";
  for (const NameRow& row : tensor_rows())
    out += fmt::format(
        "| `{}` | {} | {} | {} |\n", row.name, row.shape, row.text,
        row.aliases.empty() ? "–" : "`" + joined_texts(words_of(row.aliases), "` `") + "`");
  return out;
}

} // namespace

std::string names_text(std::string_view form, const TextStyle& text_style) {
  if (form == "json") return names_json();
  if (form == "markdown") return names_markdown();
  if (form == "table") return names_report(text_style);
  std::vector<NameRow> rows = tensor_rows();
  std::ranges::move(setting_rows(), std::back_inserter(rows));
  return names_table(rows, Of::both).as(form, text_style);
}

} // namespace mha::render
