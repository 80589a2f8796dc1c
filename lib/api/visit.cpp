#include <mha/api/visit.hpp>

#include <mha/layer/settings.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/memory.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

namespace mha::api {

namespace {

std::atomic<std::size_t> visits = 0;

bool is_word_character(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '.';
}

/// "num_heads" of the option "num-heads", "causal false" of "no-causal".
std::string without_dashes(std::string_view option) {
  std::string name(option);
  std::replace(name.begin(), name.end(), '-', '_');
  const bool negated = name.starts_with("no_") && !find_setting(name);
  return negated ? name.substr(3) + " false" : name;
}

/// What messages refer to on the command line, and where a program's author finds the same.
constexpr std::pair<std::string_view, std::string_view> references[]{
    {"choose with layer N, layer 0-2 or layer all", "say which"},
    {"`mha-inspect names`", "docs/formats.md"},
    {"`mha-inspect stages`", "docs/stages.md"},
    {"`mha-inspect tokens` shows", "their pieces show"},
    {"which only `convert` reads: mha-inspect convert PART... -o FILE",
     "which the program joins with the other parts first (docs/cluster.md)"},
    {", of which info as_naming writes a draft", " (docs/describing.md)"},
    {"show q=FILE k=FILE v=FILE", "give q, k and v"},
    {", or compare them: mha-inspect diff", ""}};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// "stored as (out, in)? say W_q=…@OI": a program gives the tensor in the other order.
std::string without_orders(std::string text) {
  constexpr std::string_view order = "=…@OI", say = "say ";
  for (std::size_t at = 0; (at = text.find(order, at)) != std::string::npos;) {
    std::size_t begin = at;
    while (begin > 0 && is_word_character(text[begin - 1])) --begin;
    if (begin >= say.size() && text.compare(begin - say.size(), say.size(), say) == 0)
      begin -= say.size();
    constexpr std::string_view cure = "give its transpose";
    text.replace(begin, at + order.size() - begin, cure);
    at = begin + cure.size();
  }
  return text;
}

/// "NAME=FILE", "NAME=FILE:TENSOR@IO": what is bound is a tensor with that key.
std::string without_bindings(std::string text) {
  constexpr std::string_view file = "=FILE";
  for (std::size_t at = 0; (at = text.find(file, at)) != std::string::npos;) {
    std::size_t begin = at, end = at + file.size();
    while (begin > 0 && is_word_character(text[begin - 1])) --begin;
    while (end < text.size() && (text[end] == ':' || text[end] == '@' || text[end] == '[' ||
                                 text[end] == ']' || (text[end] >= 'A' && text[end] <= 'Z')))
      ++end;
    const std::string key = text.substr(begin, at - begin);
    const std::string pair = fmt::format("{{\"{}\", tensor}}", key);
    text.replace(begin, end - begin, pair);
    at = begin + pair.size();
    const std::string again = pair + " or " + pair; // a file, or a tensor of one
    if (begin >= pair.size() + 4 && text.substr(begin - pair.size() - 4).starts_with(again))
      text.erase(begin - 4, pair.size() + 4), at = begin - 4;
  }
  return text;
}

} // namespace

Visit::Visit() {
  std::fegetenv(&host_);
  std::fesetenv(FE_DFL_ENV);
  if (visits++ == 0) keep_unused_memory(true);
}

Visit::~Visit() {
  std::fesetenv(&host_);
  if (--visits > 0) return;
  end_waiting_threads();
  keep_unused_memory(false);
}

std::string for_programs(std::string_view message) {
  std::string text;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const bool begins =
        message.substr(i).starts_with("--") &&
        (i == 0 || std::string_view(" ('`").find(message[i - 1]) != std::string::npos);
    if (begins) {
      std::size_t end = i + 2;
      while (end < message.size() &&
             ((message[end] >= 'a' && message[end] <= 'z') || (message[end] == '-' && end > i + 2)))
        ++end;
      if (end > i + 2) {
        text += without_dashes(message.substr(i + 2, end - i - 2));
        i = end - 1;
        continue;
      }
    }
    text += message[i];
  }
  for (const auto& [typed, meant] : references) replace_all(text, typed, meant);
  return without_bindings(without_orders(std::move(text)));
}

std::vector<Note> for_programs(std::vector<Note> notes) {
  for (Note& note : notes) note.text = for_programs(note.text);
  return notes;
}

void report(std::vector<Note>* list, std::vector<Note> notes) {
  if (!list) return;
  for (Note& note : for_programs(std::move(notes)))
    if (std::ranges::find(*list, note.text, &Note::text) == list->end())
      list->push_back(std::move(note));
}

void require_settings(const std::vector<std::pair<std::string, std::string>>& said) {
  Settings checked;
  for (const auto& [name, value] : said) set(checked, name, value, "settings");
}

} // namespace mha::api
