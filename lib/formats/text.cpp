#include <mha/formats/text.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/formats/text_numbers.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha::io {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

std::string_view without_mark(std::string_view text) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  return text;
}

} // namespace

bool begins_as_text(std::string_view first) {
  first = without_mark(first);
  const auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\n' || c == '\r';
  };
  const std::size_t at = first.find_first_not_of(" \t\r\n");
  if (at == first.npos || !std::ranges::all_of(first, is_plain)) return false;
  if (is_ndjson(first.substr(at))) return true;
  // JSON's lists have commas, and its numbers no final point.
  if (first[at] == '[' || first[at] == '{') {
    first.remove_prefix(std::min(first.find_first_not_of(" \t\r\n[", at), first.size()));
    const std::size_t end = first.find_first_of(" \t\r\n,];");
    const std::string_view word = first.substr(0, end);
    if (end == first.npos || !printed_number(word)) return false;
    const std::size_t next = first.find_first_not_of(" \t\r\n", end);
    return word.ends_with('.') || first[end] == ';' ||
           (next != first.npos && first[next] != ',' && first[next] != ']');
  }
  for (const std::string_view word :
       {"ggml_", "common_debug_cb_eval", "layer,stage,", "layer\tstage\t"})
    if (first.substr(at).starts_with(word)) return true;
  // A number may come after a name, a header or what a program prints first.
  const auto words = words_of(first.substr(at), " ,;\t\r\n[]()");
  return std::ranges::any_of(words, [](auto word) { return printed_number(word).has_value(); });
}

Contents read_text(const Bytes& bytes, bool token_lines) {
  refuse_foreign(bytes);
  Contents contents;
  contents.name = bytes.name;
  contents.format = "text";
  const TextFile file{bytes.name, extension_of(bytes.name), without_mark(bytes.text())};
  if (const std::size_t bad = invalid_utf8(file.text); bad != std::string::npos)
    fail("{}: byte {} is not UTF-8: save text as UTF-8; raw bytes are <NAME=FILE:DTYPE[SHAPE]>",
         shown(bytes.name), bad + bytes.size - file.text.size());
  if (file.text.find('\0') != file.text.npos)
    fail("{}: holds a byte of 0, as text does not; raw bytes are <NAME=FILE:DTYPE[SHAPE]>",
         shown(bytes.name));
  if (is_ndjson(file.text))
    read_ndjson(file, contents);
  else if (is_long_csv(file.text, ','))
    read_long_csv(file, ',', contents);
  else if (is_long_csv(file.text, '\t'))
    read_long_csv(file, '\t', contents);
  else if (is_eval_callback(file.text))
    read_eval_callback(file, contents);
  else if (is_display(file.text))
    read_display(file, contents);
  else if (has_brackets(file.text))
    read_brackets(file, contents);
  else
    read_rows(file, token_lines, contents);
  return contents;
}

} // namespace mha::io
