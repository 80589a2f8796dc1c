#include <mha/render/names.hpp>

#include <mha/layer/names.hpp>
#include <mha/layer/settings.hpp>
#include <mha/render/json_text.hpp>
#include <mha/render/numbers.hpp>
#include <mha/render/table.hpp>
#include <mha/system/words.hpp>

#include <vector>

namespace mha::render {

namespace {

struct TensorRow {
  std::string_view name;
  std::string shape;
  std::string_view text, axes, aliases;
};

/// The tensors of a layer, and the labels of tokens: those are text, so that the list of tensors
/// lacks them.
std::vector<TensorRow> tensor_rows() {
  std::vector<TensorRow> rows;
  for (const TensorInfo& info : tensor_names())
    rows.push_back({info.name, shape_text(info), info.text, info.axes, info.aliases});
  rows.push_back({"tokens", "T", "labels of the queries: a list of text, or numbers", "T", ""});
  rows.push_back({"key_tokens", "S", "labels of the keys, where they differ", "S", ""});
  return rows;
}

constexpr std::string_view meanings_of_letters =
    "B batch · T queries · S keys · P past keys · H query heads · H_kv key/value heads · d_in, "
    "d_model widths of the inputs · d_k, d_v widths of one head";
constexpr std::string_view spelling_rules =
    "Small and capital letters, `_`, `-` and `.` are seen through where no other name differs by "
    "them (WQ, Mask, keyPaddingMask); X, Q, K, V and q, k, v are told apart. Every stage may be "
    "given, too: `mha-inspect stages` lists them.";

} // namespace

std::string names_table(const TextStyle& text_style) {
  const auto wrapped_column = [](std::string title) {
    return Table::Column{.title = std::move(title), .shrinks = true, .wraps = true};
  };
  Table tensors({{"tensor"}, wrapped_column("shape"), wrapped_column("meaning")});
  Table settings({{"setting"}, wrapped_column("values"), wrapped_column("meaning")});
  Table aliases({{""}, wrapped_column("")});
  const auto add_aliases = [&](std::string_view name, std::string_view others) {
    if (!others.empty()) aliases.add({std::string(name), std::string(others)});
  };
  for (const TensorRow& row : tensor_rows()) {
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
  const auto put_tensor = [&](const TensorRow& row) {
    json.object([&] {
      json.member("name", row.name).member("shape", row.shape);
      json.member("text", row.text).member("axes", row.axes);
      json.key("aliases").list(words_of(row.aliases));
    });
  };
  const auto put_setting = [&](const SettingInfo& info) {
    json.object([&] {
      json.member("name", info.name).member("values", info.values).member("text", info.text);
      json.key("aliases").list(words_of(info.aliases));
    });
  };
  json.open_object(indented);
  json.key("tensors").list(tensor_rows(), put_tensor, one_row_per_line);
  json.key("settings").list(settings_table(), put_setting, one_row_per_line);
  json.close();
  json.end_line();
  return json.take();
}

std::string names_markdown() {
  std::string out = "| name | shape | meaning | also called |\n|---|---|---|---|\n";
  for (const TensorRow& row : tensor_rows())
    out += fmt::format(
        "| `{}` | {} | {} | {} |\n", row.name, row.shape, row.text,
        row.aliases.empty() ? "–" : "`" + joined_texts(words_of(row.aliases), "` `") + "`");
  return out;
}

} // namespace mha::render
