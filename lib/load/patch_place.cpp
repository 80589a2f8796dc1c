#include <mha/load/patch_place.hpp>

#include <mha/layer/select.hpp>
#include <mha/layer/token_words.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <optional>

namespace mha {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::size_t find_outside(std::string_view text, std::string_view any) {
  bool quoted = false;
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\'') quoted = !quoted;
    if (quoted) continue;
    if (depth == 0 && any.find(c) != std::string_view::npos) return i;
    if (c == '[') ++depth;
    if (c == ']' && depth > 0) --depth;
  }
  return std::string_view::npos;
}

std::vector<std::string> split_axes(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = find_outside(text, ",");
    parts.emplace_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

namespace {

/// What an axis of a stage is called.
std::string_view word_of(Axis axis) {
  switch (axis) {
  case Axis::head:
  case Axis::kv_head:
    return "heads";
  case Axis::query:
    return "tokens";
  case Axis::key:
    return "keys";
  default:
    return "columns";
  }
}

/// The position of a token's text: 'the', or 'the'#1 for the second.
std::size_t position_of(std::string_view quoted, const std::vector<std::string>& labels,
                        const std::string& patch, std::size_t text) {
  const std::size_t end = quoted.rfind('\'');
  std::string word(quoted.substr(1, end - 1));
  for (std::size_t at = 0; (at = word.find("''", at)) != std::string::npos; ++at) word.erase(at, 1);
  std::optional<std::size_t> which;
  if (const std::string_view rest = quoted.substr(end + 1); !rest.empty()) {
    which = rest.front() == '#' ? parse_number<std::size_t>(rest.substr(1)) : std::nullopt;
    if (!which) fail("{}: {}: 'TEXT' or 'TEXT'#N expected", patch, quoted);
  }
  const std::vector<std::size_t> found = places_of_token(word, labels);
  if (found.empty() || (which && *which >= found.size()))
    fail("{}: text {} has no {}token {}{}", patch, text,
         which ? fmt::format("{}th ", *which + 1) : "", quoted,
         labels.empty() ? message(": its tokens have no labels; give <tokens>, or positions") : "");
  if (found.size() > 1 && !which) {
    std::string list;
    for (std::size_t i = 0; i < found.size(); ++i)
      list += fmt::format("{}'{}'#{} at {}", i > 0 ? ", " : "", word, i, found[i]);
    fail("{}: text {} has several: {}", patch, text, list);
  }
  return found[which.value_or(0)];
}

/// An axis of a stage in one batch item: the positions in the batch that the item has, and what
/// they are called.
struct ItemAxis {
  const std::string& patch;
  std::size_t text = 0;  ///< the batch item
  std::string_view word; ///< "heads"
  std::vector<std::size_t> own = {};
  std::vector<std::string> labels = {};
  bool differs = false; ///< other items may have others
};

/// The positions of an item that a written axis means, as they are counted in the batch.
std::vector<std::size_t> positions_of(std::string_view word, const ItemAxis& axis) {
  if (word == "*" || word == ":") return axis.own;
  std::vector<std::size_t> list;
  if (word.starts_with('[') && word.ends_with(']')) {
    for (const std::string& one : split_axes(word.substr(1, word.size() - 2)))
      for (std::size_t position : positions_of(one, axis)) add_once(list, position);
    return list;
  }
  if (word.starts_with('\''))
    return {axis.own[position_of(word, axis.labels, axis.patch, axis.text)]};
  if (word.empty())
    fail("{}: an axis is empty: *, an index, a-b, a:b or a list in brackets expected", axis.patch);
  const IndexList indices(std::string(word),
                          axis.differs ? fmt::format("{}: text {}:", axis.patch, axis.text)
                                       : axis.patch + ":");
  for (std::size_t i : indices.resolve(axis.own.size(), axis.word).indices)
    list.push_back(axis.own[i]);
  return list;
}

/// An axis of tokens or of keys of a batch item; of features, whose positions all items share.
ItemAxis axis_of_item(const PatchText& patch, const Layer& layer, Dim letter, std::size_t b) {
  const Axis axis = axis_of(letter);
  const bool of_keys = axis == Axis::key, of_tokens = of_keys || axis == Axis::query;
  ItemAxis item{patch.text, layer.first_item + b, word_of(axis)};
  if (!of_tokens) {
    for (std::size_t i = 0; i < layer.dims.size_of(letter); ++i) item.own.push_back(i);
    return item;
  }
  item.own = own_positions(layer, letter, b);
  item.differs = !layer.lengths.empty();
  const std::vector<std::string>& labels = of_keys ? layer.key_tokens_of(b) : layer.tokens_of(b);
  // Labels of keys are those of all; the current ones stand after the past.
  const std::size_t before = letter == Dim::S ? layer.dims.past : 0;
  for (const std::size_t i : item.own)
    if (before + i < labels.size()) item.labels.push_back(labels[before + i]);
  return item;
}

/// Where the positions of batch items lie on an axis of `count`.
std::vector<PatchedAxis> patched_axes(const std::vector<std::vector<std::size_t>>& items,
                                      std::size_t count) {
  std::vector<PatchedAxis> axes;
  for (const std::vector<std::size_t>& list : items) axes.emplace_back(list, count);
  return axes;
}

} // namespace

PlaceAxes axes_of(const PatchText& patch, const Layer& layer, Stage stage, StagePatch& to) {
  const StageInfo& info = info_of(stage);
  const Dims& dims = layer.dims;
  const std::vector<Dim>& letters = info.letters;
  PlaceAxes place;
  place.with_heads = letters.size() == 3 || info.kind == Kind::row;
  place.with_columns = info.kind != Kind::row;
  const auto word = [&](std::size_t i) { return i < patch.axes.size() ? patch.axes[i] : "*"; };
  if (patch.axes.size() > (place.with_columns ? 3u : 2u))
    fail("{}: {} has {} axes: [{}]", patch.text, info.name, place.with_columns ? "three" : "two",
         place.with_columns ? "heads,tokens,columns" : "heads,tokens");
  if (!place.with_heads && word(0) != "*")
    fail("{}: {} has no heads; its first axis is *: {}[*,{}]", patch.text, info.name, info.name,
         word(0));
  const Dim rows = letters[place.with_heads ? 1 : 0], last = letters.back();
  place.heads = {0};
  if (place.with_heads)
    place.heads = positions_of(word(0), axis_of_item(patch, layer, letters[0], 0));
  const bool of_keys = place.with_columns && axis_of(last) == Axis::key;
  if (!place.with_columns) place.columns = {{0}};
  for (std::size_t b = 0; b < dims.B; ++b) {
    place.tokens.push_back(positions_of(word(1), axis_of_item(patch, layer, rows, b)));
    if (of_keys || place.columns.empty())
      place.columns.push_back(positions_of(word(2), axis_of_item(patch, layer, last, b)));
  }
  const auto is_empty = [](const auto& list) { return list.empty(); };
  if (place.heads.empty() || std::ranges::any_of(place.tokens, is_empty) ||
      std::ranges::any_of(place.columns, is_empty))
    fail("{}: the place holds no number", patch.text);
  to.heads = PatchedAxis(place.heads, place.with_heads ? dims.size_of(letters[0]) : 1);
  to.tokens = patched_axes(place.tokens, dims.size_of(rows));
  to.columns = patched_axes(place.columns, place.with_columns ? dims.size_of(last) : 1);
  return place;
}

} // namespace mha
