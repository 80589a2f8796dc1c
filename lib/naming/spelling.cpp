#include <mha/naming/spelling.hpp>

#include <mha/layer/names.hpp>
#include <mha/layer/settings.hpp>
#include <mha/layer/stage.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <vector>

namespace mha {

const Message names_hint = message("; <names page> lists them all");

namespace {

/// "layers.0.attn.q_proj.weight" → "q_proj.weight": the last part, and the one before it where the
/// last gives only the kind of tensor.
std::string_view own_part(std::string_view name) {
  const std::size_t dot = name.find_last_of("./");
  if (dot == std::string_view::npos) return name;
  const std::string_view last = name.substr(dot + 1);
  if (!has_word("weight bias kernel w b", bare_letters(last))) return last;
  const std::size_t before = dot == 0 ? dot : name.find_last_of("./", dot - 1);
  return before == std::string_view::npos ? name : name.substr(before + 1);
}

// What words in a name mean: whose tensor, and which kind of tensor.
enum class Sort : std::uint8_t { role, weight, bias, filler };
struct Word {
  std::string_view text, means;
  Sort sort;
};
// clang-format off
constexpr std::array vocabulary{
    Word{"qkv", "qkv", Sort::role}, Word{"kv", "kv", Sort::role},
    Word{"query", "q", Sort::role}, Word{"queries", "q", Sort::role}, Word{"q", "q", Sort::role},
    Word{"key", "k", Sort::role}, Word{"keys", "k", Sort::role}, Word{"k", "k", Sort::role},
    Word{"value", "v", Sort::role}, Word{"values", "v", Sort::role}, Word{"val", "v", Sort::role}, Word{"v", "v", Sort::role},
    Word{"output", "o", Sort::role}, Word{"out", "o", Sort::role}, Word{"o", "o", Sort::role},
    Word{"weights", "", Sort::weight}, Word{"weight", "", Sort::weight}, Word{"w", "", Sort::weight},
    Word{"projection", "", Sort::weight}, Word{"proj", "", Sort::weight}, Word{"kernel", "", Sort::weight},
    Word{"matrix", "", Sort::weight}, Word{"mat", "", Sort::weight}, Word{"linear", "", Sort::weight},
    Word{"lin", "", Sort::weight}, Word{"to", "", Sort::weight},
    Word{"bias", "", Sort::bias}, Word{"b", "", Sort::bias},
    Word{"attention", "", Sort::filler}, Word{"attn", "", Sort::filler}, Word{"self", "", Sort::filler}, Word{"mha", "", Sort::filler},
};
// clang-format on

/// The letters cut into words of the vocabulary, all of them, the longest first; nothing where they
/// are something else.
bool cut(std::string_view letters, std::vector<const Word*>& words) {
  if (letters.empty()) return true;
  if (words.size() == 5) return false; // no name has more, and no work grows
  std::vector<const Word*> candidates;
  for (const Word& word : vocabulary)
    if (letters.starts_with(word.text)) candidates.push_back(&word);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Word* a, const Word* b) { return a->text.size() > b->text.size(); });
  for (const Word* word : candidates) {
    words.push_back(word);
    if (cut(letters.substr(word->text.size()), words)) return true;
    words.pop_back();
  }
  return false;
}

/// A projection's weight or bias, taken apart.
struct Projection {
  std::string_view role; ///< "q", "k", "v", "o", "qkv", "kv"
  bool bias = false;
  bool short_form = false; ///< w or b and the role, nothing else: `Wq`, `b_query`
  bool bias_word = false;  ///< "bias", which PyTorch has for other things, too
};

std::optional<Projection> projection_in(std::string_view name) {
  std::vector<const Word*> words;
  const std::string letters = bare_letters(own_part(name));
  if (name.size() == 3 && bare_letters(name) == "tok") return std::nullopt; // a token
  if (!cut(letters, words)) return std::nullopt;
  Projection found;
  std::size_t weights = 0, biases = 0;
  for (const Word* word : words) {
    if (word->sort == Sort::role && !found.role.empty()) return std::nullopt;
    if (word->sort == Sort::role) found.role = word->means;
    weights += word->sort == Sort::weight, biases += word->sort == Sort::bias;
    found.bias_word = found.bias_word || word->text == "bias";
  }
  if (found.role.empty() || weights + biases == 0) return std::nullopt;
  found.bias = biases > 0;
  found.short_form = words.size() == 2 && (words[0]->text == "w" || words[0]->text == "b") &&
                     words[1]->sort == Sort::role;
  return found;
}

/// Every name of tensors and stages by its letters alone; made once, as files may have many names.
const std::map<std::string, std::string_view, std::less<>>& names_by_letters() {
  static const auto table = [] {
    std::map<std::string, std::string_view, std::less<>> names;
    for (const TensorInfo& info : tensor_names()) {
      names.emplace(bare_letters(info.name), info.name);
      for (std::string_view alias : words_of(info.aliases))
        names.emplace(bare_letters(alias), info.name);
    }
    for (std::string_view label : {"tokens", "key_tokens"})
      names.emplace(bare_letters(label), label);
    for (const StageInfo& info : stages()) names.emplace(bare_letters(info.name), info.name);
    return names;
  }();
  return table;
}

constexpr std::string_view linear_hint =
    "PyTorch's nn.Linear stores (out, in), @OI; a matrix applied as x W is @IO";

Misspelt about_projection(const Projection& found) {
  if (found.role == "kv")
    return {"W_k", "keys and values in one are not known here: split it into W_k and W_v", ""};
  if (found.bias) {
    const std::string name = fmt::format("b_{}", found.role);
    if (found.bias_word && (found.role == "k" || found.role == "v"))
      return {name,
              fmt::format("it can mean two things: write {} (the projection's bias) or {}_extra (a "
                          "learned key or value, PyTorch's bias_{})",
                          name, found.role, found.role),
              ""};
    if (found.bias_word && found.role == "q")
      return {name,
              "it can mean two things: write b_q (the projection's bias) or bias (added to the "
              "scores)",
              ""};
    return {name, fmt::format("did you mean '{}'?", name), ""};
  }
  const std::string name = fmt::format("W_{}", found.role);
  return {name, fmt::format("did you mean '{}'? {}", name, linear_hint), "@OI"};
}

/// Words for an input or for what is computed from it.
std::optional<Misspelt> about_role(std::string_view letters) {
  for (const auto& [words, choices, first] :
       {std::tuple("query queries", "X (the input), Q (all heads side by side) or q (per head)",
                   "X"),
        {"key keys", "X_k (the input), K (all heads side by side) or k (per head)", "X_k"},
        {"value values val", "X_v (the input), V (all heads side by side) or v (per head)", "X_v"}})
    if (has_word(words, letters))
      return Misspelt{first, fmt::format("it can mean several things: write {}", choices), ""};
  return std::nullopt;
}

/// W_o with a zero for its letter. In other names a zero counts: "net.0.weight".
std::optional<Misspelt> about_zero(std::string_view letters) {
  if (letters != "w0" && letters != "b0") return std::nullopt;
  const std::string name = letters == "w0" ? "W_o" : "b_o";
  return Misspelt{name, fmt::format("did you mean '{}'? It ends in the letter o", name), ""};
}

/// A typing mistake in a name long enough to be distinct.
std::string slip_of(std::string_view own) {
  constexpr std::size_t shortest = 4;
  if (own.size() < shortest) return "";
  static const auto known = [](bool with_aliases) {
    std::vector<std::string_view> names{"tokens", "key_tokens"};
    for (const TensorInfo& info : tensor_names()) {
      if (info.name.size() >= shortest) names.push_back(info.name);
      for (std::string_view alias : words_of(info.aliases))
        if (with_aliases && alias.size() >= shortest) names.push_back(alias);
    }
    return names;
  };
  static const std::vector<std::string_view> alone = known(false), with_aliases = known(true);
  const std::vector<std::string_view>& names = own.size() > shortest ? with_aliases : alone;
  const std::string meant = closest(own, names);
  if (meant.empty() || edit_distance(own, meant) > (own.size() < 8 ? 1u : 2u)) return "";
  // A stage that is as near may be what was meant; so may a plural, of something else.
  for (const StageInfo& info : stages())
    if (own == std::string(info.name) + "s" || info.name == own) return "";
  const TensorInfo* info = find_tensor_name(meant);
  return info ? std::string(info->name) : meant;
}

} // namespace

std::string same_name(std::string_view name) {
  const std::string_view own = own_part(name);
  if (const std::optional<Projection> found = projection_in(name);
      found && found->short_form && found->role != "kv")
    return fmt::format("{}_{}", found->bias ? 'b' : 'W', found->role);
  const std::string letters = bare_letters(own);
  if (letters.size() < 2 || has_word("q k v", letters)) return "";
  const auto found = names_by_letters().find(letters);
  return found == names_by_letters().end() ? std::string() : std::string(found->second);
}

std::optional<Misspelt> misspelt(std::string_view name) {
  const std::string_view own = own_part(name);
  if (const std::optional<Misspelt> role = about_role(bare_letters(own))) return role;
  if (const std::optional<Misspelt> zero = about_zero(bare_letters(own))) return zero;
  if (const std::optional<Projection> found = projection_in(name)) return about_projection(*found);
  if (const std::string meant = slip_of(own); !meant.empty())
    return Misspelt{meant, fmt::format("did you mean '{}'?", meant), ""};
  return std::nullopt;
}

std::optional<NumberedHead> numbered_head(std::string_view name) {
  const std::string letters = bare_letters(own_part(name));
  const auto first = std::ranges::find_if(letters, is_digit);
  const auto last = std::find_if_not(first, letters.end(), is_digit);
  const std::optional<std::size_t> number = parse_number<std::size_t>(std::string(first, last));
  const std::optional<Projection> found =
      projection_in(std::string(letters.begin(), first) + std::string(last, letters.end()));
  if (!number || !found || found->role.size() != 1) return std::nullopt;
  return NumberedHead{fmt::format("{}_{}", found->bias ? "b" : "W", found->role), *number};
}

std::string same_setting(std::string_view name) {
  const std::string letters = bare_letters(name);
  if (letters.size() < 3) return "";
  for (const SettingInfo& info : settings_table()) {
    if (bare_letters(info.name) == letters) return std::string(info.name);
    for (std::string_view alias : words_of(info.aliases))
      if (bare_letters(alias) == letters) return std::string(info.name);
  }
  return "";
}

std::string about_setting(std::string_view name) {
  const std::string letters = bare_letters(name);
  if (has_word("dhead headdim headsize dimhead headwidth dk dv dkv", letters))
    return "the width of a head is the projection's columns over the heads: give num_heads";
  if (letters == "head") return "did you mean 'num_heads'?";
  return "";
}

} // namespace mha
