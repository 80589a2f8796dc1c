#include "retype.hpp"

#include "layer_options.hpp"
#include <mha/render/text.hpp>

#include <algorithm>

namespace mha::app {

std::string retyped(const RunRequest& request, const std::string& layer_id) {
  std::string out;
  const auto add = [&](const std::string& word) { out += (out.empty() ? "" : " ") + word; };
  const auto add_option = [&](const char* name, const std::string& value) {
    if (!value.empty()) add(fmt::format("{} {}", name, shell_word(value)));
  };
  for (const std::string& source : request.sources) add(shell_word(source));
  if (const Text& typed = request.text; request.has_text()) {
    for (const std::string& ids : typed.ids) add_option("--ids", ids);
    add_option("--inputs-embeds", typed.rows);
    for (const std::string& text : typed.texts) add_option("--text", text);
    for (const std::string& file : typed.files) add_option("--text-file", file);
    if (typed.each_line) add("--each-line");
    if (typed.special.none) add("--no-special");
    if (typed.special.bos) add(*typed.special.bos ? "--bos" : "--no-bos");
    add_option("--layer", layer_id); // a text alone would run every layer
  } else if (!request.layer.empty()) {
    add_option("--layer", layer_id);
  }
  add_option("--prefix", request.prefix);
  add_option("--naming", request.naming);
  add_option("--config", request.config);
  if (request.gguf_order) add("--gguf-order");
  for (const std::string& patch : typed_patches(request)) add_option("--patch", patch);
  add_option("--tokens", request.tokens);
  add_option("--key-tokens", request.key_tokens);
  if (request.dtype) add(fmt::format("--dtype {}", name_of(*request.dtype)));
  for (const auto& [name, value] : request.settings) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (find_setting(name)->kind == SettingKind::boolean)
      add((value == "true" ? "--" : "--no-") + dashed);
    else
      add(fmt::format("--{} {}", dashed, shell_word(value)));
  }
  return out;
}

std::string wrapped_command(const std::string& line, std::size_t column, std::size_t width) {
  std::vector<std::string> words{""};
  char quote = 0;
  bool escaped = false;
  for (const char c : line) {
    if (c == ' ' && quote == 0 && !escaped) {
      words.emplace_back();
      continue;
    }
    words.back() += c;
    if (escaped || (c == '\\' && quote != '\''))
      escaped = !escaped;
    else if (quote != 0 ? c == quote : c == '\'' || c == '"')
      quote = quote != 0 ? '\0' : c;
  }
  std::string out = words[0];
  column += render::display_width(out);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t word_width = render::display_width(words[i]);
    if (column + 1 + word_width + 2 > width) { // leaves room for " \\"
      out += " \\\n      " + words[i];
      column = 6 + word_width;
      continue;
    }
    out += " " + words[i];
    column += 1 + word_width;
  }
  return out;
}

std::string wrapped_commands(std::string_view text, const render::TextStyle& text_style) {
  constexpr std::string_view program = "mha-inspect ";
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t at = line.find(program);
    if (text_style.window && at != std::string_view::npos)
      out += std::string(line.substr(0, at)) +
             wrapped_command(std::string(line.substr(at)),
                             render::display_width(line.substr(0, at)), text_style.width);
    else
      out += line;
    text.remove_prefix(line.size());
    if (text.empty()) break;
    out += '\n';
    text.remove_prefix(1);
  }
  return out;
}

} // namespace mha::app
