#include <mha/layer/select.hpp>

#include <mha/system/characters.hpp>
#include <mha/system/error.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace mha {

namespace {

/// A label as text: a sign for a blank or a line's end becomes that character.
std::string plain_text(std::string text) {
  for (const auto& [shown, meant] :
       {std::pair<std::string_view, std::string_view>("␣", " "), {"⏎", "\n"}})
    for (std::size_t at = 0; (at = text.find(shown, at)) != std::string::npos; at += meant.size())
      text.replace(at, shown.size(), meant);
  return text;
}

std::string in_small_letters(const std::string& text) {
  std::string small = lowered(plain_text(text));
  std::erase(small, ' ');
  return small;
}

/// How far a token is from a word, in edits; 0 for other capitals, or a part of it. A word twice as
/// long as the token, or the other way round, is not a part.
std::size_t distance(const std::string& word, const std::string& label) {
  const std::string a = in_small_letters(word), b = in_small_letters(label);
  if (a.empty() || b.empty()) return std::max(a.size(), b.size());
  const bool part = a.find(b) != std::string::npos || b.find(a) != std::string::npos;
  if (part && 2 * std::min(a.size(), b.size()) >= std::max(a.size(), b.size())) return 0;
  return edit_distance(a, b);
}

/// "; near: ' Juliet' at 3, 'Jul' at 7", or the first tokens where none is near.
std::string near_tokens(const std::string& word, const std::vector<std::string>& labels) {
  constexpr std::size_t most = 6;
  std::vector<std::pair<std::size_t, std::size_t>> near; // edits, position
  const std::size_t allowed = (in_small_letters(word).size() + 2) / 3;
  for (std::size_t t = 0; t < labels.size(); ++t)
    if (const std::size_t edits = distance(word, labels[t]); edits <= allowed)
      near.emplace_back(edits, t);
  std::ranges::stable_sort(near, {}, [](const auto& one) { return one.first; });
  const bool any = !near.empty();
  for (std::size_t t = 0; !any && t < labels.size(); ++t) near.emplace_back(0, t);
  std::string list;
  for (std::size_t i = 0; i < std::min(most, near.size()); ++i)
    list += fmt::format("{}'{}' at {}", i > 0 ? ", " : "", labels[near[i].second], near[i].second);
  if (near.size() > most) list += " …";
  return (any ? "; near: " : "; there are ") + list;
}

/// "the#2" is "the" and 2; a '#' without a number after it is text.
std::pair<std::string, std::optional<std::size_t>> split_number(const std::string& word) {
  const std::size_t hash = word.rfind('#');
  if (hash == std::string::npos || hash == 0 || hash + 1 == word.size()) return {word, {}};
  const auto number = parse_number<std::size_t>(std::string_view(word).substr(hash + 1));
  if (!number) return {word, {}};
  return {word.substr(0, hash), number};
}

/// Whether a text can mean nothing but indices: of digits and the signs between them.
bool is_of_indices(std::string_view text) {
  return text.find_first_not_of("0123456789,:-") == std::string_view::npos &&
         (text.empty() || text.find_first_of("0123456789") != std::string_view::npos);
}

/// The position of one token. Throws Error that begins with `prefix`.
std::size_t place_of(const std::string& whole, const std::vector<std::string>& labels,
                     const Message& prefix) {
  auto [word, which] = split_number(whole);
  if (which && !places_of_token(whole, labels).empty()) word = whole, which.reset();
  const std::vector<std::size_t> found = places_of_token(word, labels);
  if (found.empty()) fail("{}no token is '{}'{}", prefix, word, near_tokens(word, labels));
  if (found.size() == 1 && !which) return found[0];
  if (which && *which < found.size()) return found[*which];
  constexpr std::size_t most = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(most, found.size()); ++i)
    list += fmt::format("{}'{}#{}' at {}", i > 0 ? ", " : "", word, i, found[i]);
  fail("{}{} '{}'{}: {}{}", prefix, found.size() == 1 ? "one token is" : "several tokens are", word,
       which ? fmt::format(", but #{} counts from 0", *which) : "; choose one", list,
       found.size() > most ? " …" : "");
}

} // namespace

std::vector<std::size_t> places_of_token(const std::string& word,
                                         const std::vector<std::string>& labels) {
  std::vector<std::size_t> found;
  for (const std::string& tried : {plain_text(word), " " + plain_text(word)}) {
    for (std::size_t t = 0; t < labels.size(); ++t)
      if (labels[t] == word || plain_text(labels[t]) == tried) found.push_back(t);
    if (!found.empty()) break;
  }
  return found;
}

IndexList IndexList::of_tokens(std::string text, Message option) {
  try {
    return {text, option};
  } catch (const Error&) {
    if (is_of_indices(text)) throw;
  }
  IndexList list;
  list.text_ = std::move(text), list.option_ = std::move(option);
  list.names_tokens_ = true;
  return list;
}

IndexList IndexList::placed(const std::vector<std::string>& labels, std::string_view where) const {
  if (!names_tokens_) return *this;
  const Message prefix =
      message("{} {}: {}", option_, text_, where.empty() ? "" : fmt::format("{}: ", where));
  if (std::ranges::all_of(labels, [](const std::string& label) { return label.empty(); }))
    fail("{}it is not an index, and the tokens have no labels to find it among (<tokens> gives "
         "some); "
         "expected i, a-b (both ends) or a:b (as NumPy slices), separated by commas",
         prefix);
  if (!places_of_token(split_number(text_).first, labels).empty() ||
      !places_of_token(text_, labels).empty())
    return {std::to_string(place_of(text_, labels, prefix)), option_};
  std::string indices;
  for (std::string_view typed : split_at(text_, ',')) {
    const std::string part(typed);
    if (!indices.empty()) indices += ',';
    indices += !part.empty() && is_of_indices(part)
                   ? part
                   : std::to_string(place_of(part, labels, prefix));
  }
  return {indices, option_};
}

namespace {

/// Whether some of a list is "-1", "-3:", "::-1".
bool counts_from_end(std::string_view list) {
  for (std::size_t at = 0; (at = list.find('-', at)) != std::string_view::npos; ++at)
    if (at == 0 || std::string_view(",: ").find(list[at - 1]) != std::string_view::npos)
      return true;
  return false;
}

/// The positions in a text of this many tokens, counted from its beginning.
IndexList from_beginning(const IndexList& list, std::size_t tokens) {
  const Pick pick = list.resolve(tokens, "tokens");
  const std::vector<std::size_t>& places = pick.indices;
  if (places.size() == 1 && !pick.drops_axis)
    return {fmt::format("{}:{}", places[0], places[0] + 1), list.option()};
  return {fmt::format("{}", fmt::join(places, ",")), list.option()};
}

} // namespace

Selection Selection::placed(const Layer& layer) const {
  Selection to = *this;
  const std::vector<std::size_t> items = resolved(batch, layer.dims.B, "batch items").indices;
  const auto place = [&](std::optional<IndexList>& list, bool keys) {
    if (!list || !list->names_tokens()) return;
    std::optional<IndexList> found;
    for (const std::size_t b : items) {
      const std::vector<std::string>& own =
          keys && !layer.key_tokens_of(b).empty() ? layer.key_tokens_of(b) : layer.tokens_of(b);
      const std::string where =
          layer.item_tokens.empty() ? std::string() : fmt::format("text {}", b);
      const IndexList here = list->placed(own, where);
      if (found && found->text() != here.text())
        fail("{} {}: it is at {} in text {}, at {} in text {}; choose one with <batch>",
             list->option(), list->text(), found->text(), items[0], here.text(), b);
      found = here;
      if (layer.item_tokens.empty()) break; // all items have the same labels
    }
    if (found) list = found;
  };
  place(to.query, false), place(to.key, true);
  const auto place_from_end = [&](std::optional<IndexList>& list, std::size_t count) {
    if (!list || !counts_from_end(list->text()) || layer.lengths.empty() || count != layer.dims.T)
      return;
    const IndexList first = from_beginning(*list, layer.length_of(items[0]));
    for (const std::size_t b : items)
      if (const IndexList here = from_beginning(*list, layer.length_of(b));
          here.text() != first.text())
        fail("{} {}: counted from the end it is {} in text {}, {} in text {}; choose one with "
             "<batch>, or count from the beginning",
             list->option(), list->text(), first.text(), items[0], here.text(), b);
    list = first;
  };
  place_from_end(to.query, layer.dims.T), place_from_end(to.key, layer.dims.S);
  return to;
}

} // namespace mha
