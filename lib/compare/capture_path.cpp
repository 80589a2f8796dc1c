#include <mha/compare/capture_names.hpp>

#include <mha/compare/names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/ranges.h>

namespace mha {

namespace {

/// The names of numbered layers.
constexpr std::string_view layer_words = "layers layer h blocks block blk decoder_layer "
                                         "encoder_layer decoder_layers encoder_layers l";

std::optional<std::size_t> number_in(std::string_view part) {
  if (!is_number(part)) return std::nullopt;
  return parse_number<std::size_t>(part);
}

/// Whether a word is a step of a layer by itself: "attn_out" of "attn_out_3".
bool is_step_word(const std::string& word) {
  if (is_layer_word(word)) return false;
  const CaptureMeaning* row = meaning_of(layer_meanings(), {word}, {});
  return (row && !row->output.empty()) || !result_stages(word).empty();
}

/// {"layer", 3} of "layer_3" and "layer3", {"attn_out", 3} of "attn_out_3"; no number if the word
/// before it is neither a layer nor a layer's step or cache: "fc_1", "transformer_h_0_ln_1".
std::pair<std::string_view, std::optional<std::size_t>> numbered_word(std::string_view part) {
  std::size_t digits = part.size();
  while (digits > 0 && is_digit(part[digits - 1])) --digits;
  std::string_view word = part.substr(0, digits);
  const bool apart = word.ends_with('_');
  if (apart) word.remove_suffix(1);
  const bool counts = word.empty() || is_layer_word(word.substr(word.rfind('_') + 1)) ||
                      (apart && (is_cache(word) || is_step_word(std::string(word))));
  return {word, counts ? number_in(part.substr(digits)) : std::nullopt};
}

/// Whether the words before a number are one of the model's ends: lm_head.output.0 has no layer.
bool is_end_of_model(std::vector<std::string> words, std::size_t count) {
  words.resize(count);
  return !words.empty() && meaning_of(model_meanings(), words, {}) != nullptr;
}

/// "Mul_1" and 0 of "Mul_1_output_0" or "Mul_1", "output_0".
void take_graph_node(std::vector<std::string>& words, GraphNode& node) {
  if (words.empty()) return;
  const std::size_t at = words.back().rfind("output_");
  if (at != std::string::npos && (at == 0 || words.back()[at - 1] == '_'))
    if (const auto result = number_in(std::string_view(words.back()).substr(at + 7))) {
      node.result = *result;
      words.back().resize(at == 0 ? 0 : at - 1);
      if (words.back().empty()) words.pop_back();
    }
  if (words.empty() || std::isupper(static_cast<unsigned char>(words.back()[0])) == 0) return;
  node.name = words.back();
  words.pop_back();
}

/// Flax keeps the results of a module's calls under "__call__", in a tuple with an item a call.
void drop_calls(std::vector<std::string>& words) {
  const auto call = std::ranges::find(words, "__call__");
  if (call == words.end()) return;
  const bool counted = call + 1 != words.end() && is_number(*(call + 1));
  words.erase(call, call + (counted ? 2 : 1));
}

} // namespace

bool is_layer_word(std::string_view word) {
  return has_word(layer_words, word);
}

bool is_cache(std::string_view word) {
  return has_word("present past past_key_values present_key_values key_cache value_cache k_cache "
                  "v_cache cache kv_cache past_key past_value present_key present_value cache_k "
                  "cache_v cached_key cached_value",
                  word);
}

CapturePath path_of(std::string_view name) {
  CapturePath path;
  const auto [plain, suffix] = without_layer_suffix(name);
  std::vector<std::string> words = words_of<std::string>(plain, "./[]");
  drop_calls(words);
  if (name.find('/') != std::string_view::npos) take_graph_node(words, path.node);
  path.layer = suffix;
  for (std::size_t i = 0; i < words.size() && !path.layer; ++i) {
    const auto [word, number] = numbered_word(words[i]);
    if (!number || is_end_of_model(words, i)) continue;
    path.layer = number;
    path.own_form = words.size() == 3 && words[0] == "layers" && i == 1;
    // "attn_out_3" is a step of layer 3, "layer_3" the layer; a container of caches names the
    // cache.
    std::vector<std::string> after(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
    std::string before(word.empty() && i > 0 ? std::string_view(words[i - 1]) : word);
    if (before.ends_with("_l")) before.resize(before.size() - 2); // llama.cpp's "cache_k_l3"
    if (is_cache(before) || (!word.empty() && after.empty() && is_step_word(before)))
      after.insert(after.begin(), before);
    words = std::move(after);
    break;
  }
  path.words = std::move(words);
  return path;
}

namespace {

/// A word without separators, in lower case, so that "LayerNorm" equals "layer_norm".
std::string squeezed(std::string_view word) {
  std::string letters;
  for (char c : word)
    if (c != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

using Vocabulary = std::map<std::string, std::string, std::less<>>;

/// The words of modules' paths.
const Vocabulary& module_words() {
  static const Vocabulary words = [] {
    Vocabulary list;
    for (const auto* table : {&layer_meanings(), &model_meanings()})
      for (const CaptureMeaning& row : *table)
        for (std::string_view path : words_of(row.words))
          for (const std::string& word : words_of<std::string>(path, "."))
            list.emplace(squeezed(word), word);
    return list;
  }();
  return words;
}

/// The module words and the names of results.
const Vocabulary& all_words() {
  static const Vocabulary words = [] {
    Vocabulary list = module_words();
    for (const StageInfo& info : stages()) list.emplace(squeezed(info.name), info.name);
    for (const auto& [word, meant] : result_words()) list.emplace(squeezed(word), word);
    return list;
  }();
  return words;
}

std::string joined(const std::vector<std::string>& parts, std::size_t first, std::size_t last) {
  return fmt::format("{}", fmt::join(parts.begin() + static_cast<std::ptrdiff_t>(first),
                                     parts.begin() + static_cast<std::ptrdiff_t>(last), "_"));
}

/// Parts joined into the longest known words, and whether every word is known.
struct KnownWords {
  std::vector<std::string> words;
  bool all_known = true;
};

KnownWords words_from(const std::vector<std::string>& parts, const Vocabulary& known) {
  KnownWords result;
  for (std::size_t i = 0; i < parts.size();) {
    std::size_t last = parts.size();
    auto word = known.end();
    for (; last > i && word == known.end(); --last)
      word = known.find(squeezed(joined(parts, i, last)));
    result.words.push_back(word == known.end() ? parts[i] : word->second);
    result.all_known = result.all_known && word != known.end();
    i = word == known.end() ? i + 1 : last + 1;
  }
  return result;
}

/// The longest path of a table that the parts end with, in the table's spelling, or empty.
std::vector<std::string> path_at_end(const std::vector<std::string>& parts, bool of_layer) {
  using Paths = std::map<std::string, std::string_view, std::less<>>;
  const auto paths_of = [](const std::vector<CaptureMeaning>& table) {
    Paths paths;
    for (const CaptureMeaning& row : table)
      for (std::string_view path : words_of(row.words)) {
        const std::vector<std::string> words = words_of<std::string>(path, ".");
        paths.emplace(squeezed(joined(words, 0, words.size())), path);
      }
    return paths;
  };
  static const Paths layer = paths_of(layer_meanings()), model = paths_of(model_meanings());
  const Paths& paths = of_layer ? layer : model;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (const auto path = paths.find(squeezed(joined(parts, i, parts.size()))); path != paths.end())
      return words_of<std::string>(path->second, ".");
  return {};
}

/// "Mul_1" of "…_Mul_1_output_0".
GraphNode node_at_end(std::vector<std::string>& parts) {
  GraphNode node;
  const std::size_t n = parts.size();
  if (n < 3 || parts[n - 2] != "output" || !is_number(parts[n - 1])) return node;
  const std::size_t at = is_number(parts[n - 3]) && n > 3 ? n - 4 : n - 3;
  if (std::isupper(static_cast<unsigned char>(parts[at][0])) == 0) return node;
  node.name = joined(parts, at, n - 2);
  node.result = *number_in(parts[n - 1]);
  parts.resize(at);
  return node;
}

} // namespace

std::vector<CapturePath> flat_paths_of(std::string_view name) {
  if (name.find('_') == std::string_view::npos) return {};
  std::vector<std::string> cache; // "past_key_values" of "past_key_values_3_key"
  std::vector<std::string> parts = words_of<std::string>(name, "_./[]-");
  std::erase(parts, "modules"); // torch.compile's names
  CapturePath path;
  path.node = node_at_end(parts);
  for (std::size_t i = 0; i < parts.size() && !path.layer; ++i) {
    const std::string before = joined(parts, 0, i);
    if (is_cache(before)) cache = {before};
    const bool apart = is_layer_word(parts[i]) && i + 1 < parts.size();
    const auto [word, number] = numbered_word(parts[i]);
    if (apart)
      path.layer = number_in(parts[i + 1]);
    else if (number && (is_layer_word(word) || !cache.empty()))
      path.layer = number;
    if (path.layer)
      parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i + (apart ? 2 : 1)));
  }
  parts.insert(parts.begin(), cache.begin(), cache.end());
  if (parts.empty()) return {};
  const std::string whole = joined(parts, 0, parts.size());
  std::vector<CapturePath> paths;
  const auto add = [&](std::vector<std::string> words) {
    paths.push_back(path);
    paths.back().words = std::move(words);
  };
  const KnownWords modules = words_from(parts, module_words());
  const std::vector<std::string> module = path_at_end(parts, path.layer.has_value());
  if (path.layer && has_word("out output hidden hidden_state hidden_states", whole))
    add({}); // the layer's output
  else if (path.layer && !cache.empty())
    add(parts);
  else if (!module.empty())
    add(module);
  else if (path.layer && !modules.all_known && is_step_word(whole))
    add({whole});
  add(modules.words);
  add(words_from(parts, all_words()).words);
  return paths;
}

} // namespace mha
