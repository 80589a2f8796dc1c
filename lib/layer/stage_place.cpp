#include <mha/layer/stage_place.hpp>

#include <mha/layer/graph.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

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

std::string unquoted(std::string_view text) {
  std::string word(text.substr(1, text.size() - 2));
  for (std::size_t at = 0; (at = word.find("''", at)) != std::string::npos; ++at) word.erase(at, 1);
  return word;
}

namespace {

/// The parts between commas that are outside of quotes and brackets.
std::vector<std::string> split_axes(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = find_outside(text, ",");
    parts.emplace_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

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

/// The position of a token.
std::size_t position_of(const std::string& word, const std::optional<std::size_t>& which,
                        std::string_view written, const ItemAxis& axis) {
  const std::vector<std::size_t> found = places_of_token(word, axis.labels);
  if (found.empty() || (which && *which >= found.size()))
    fail("{}: text {} has no {}token {}{}", axis.where, axis.text,
         which ? fmt::format("{}th ", *which + 1) : "", written,
         axis.labels.empty() ? message(": its tokens have no labels; give <tokens>, or positions")
                             : "");
  if (found.size() > 1 && !which) {
    std::string list;
    for (std::size_t i = 0; i < found.size(); ++i)
      list += fmt::format("{}'{}'#{} at {}", i > 0 ? ", " : "", word, i, found[i]);
    fail("{}: text {} has several: {}", axis.where, axis.text, list);
  }
  return found[which.value_or(0)];
}

} // namespace

ItemAxis axis_of_item(const Message& where, const Layer& layer, Dim letter, std::size_t b) {
  const Axis axis = axis_of(letter);
  const bool of_keys = axis == Axis::key, of_tokens = of_keys || axis == Axis::query;
  ItemAxis item{where, layer.first_item + b, word_of(axis)};
  if (!of_tokens) {
    for (std::size_t i = 0; i < layer.dims.size_of(letter); ++i) item.own.push_back(i);
    return item;
  }
  item.own = own_positions(layer, letter, b);
  item.differs = !layer.lengths.empty();
  const std::vector<std::string>& labels = of_keys ? layer.key_tokens_of(b) : layer.tokens_of(b);
  // Labels of keys are those of all; the current ones come after the past.
  const std::size_t before = letter == Dim::S ? layer.dims.past : 0;
  for (const std::size_t i : item.own)
    if (before + i < labels.size()) item.labels.push_back(labels[before + i]);
  return item;
}

namespace {

/// Where the positions of batch items are on an axis of `count`.
std::vector<PatchedAxis> patched_axes(const std::vector<std::vector<std::size_t>>& items,
                                      std::size_t count) {
  std::vector<PatchedAxis> axes;
  for (const std::vector<std::size_t>& list : items) axes.emplace_back(list, count);
  return axes;
}

} // namespace

PlaceLayers layers_of_place(std::string_view place, std::string_view text) {
  PlaceLayers of;
  for (std::string_view stack : {"layers.", "blocks.", "h."})
    if (place.starts_with(stack)) {
      const std::string_view rest = place.substr(stack.size());
      const std::string_view word = rest.substr(0, rest.find('.'));
      const std::size_t dash = word.find('-');
      if (word == "*") {
        of.every_layer = true;
      } else if (dash == 0 && parse_number<std::size_t>(word.substr(1)).value_or(0) > 0) {
        of.from_end = *parse_number<std::size_t>(word.substr(1));
      } else if (dash != std::string_view::npos) {
        const auto first = parse_number<std::size_t>(word.substr(0, dash)),
                   last = parse_number<std::size_t>(word.substr(dash + 1));
        if (!first || !last || *last < *first)
          fail("{}: layers {}: A-B expected, both ends counted, or a number (-1 is the last)", text,
               word);
        of.layers = {*first, *last};
      } else if (const auto number = parse_number<std::size_t>(word)) {
        of.layers = {*number, *number};
      } else {
        fail("{}: '{}' is not a layer: a number, A-B or * expected: layers.3.weights", text, word);
      }
      return of;
    }
  return of;
}

void PlaceLayers::count_from_first(std::size_t count, const Message& text) {
  if (from_end == 0) return;
  if (from_end > count)
    fail("{}: there is no layer -{}: the model has {}, -1 is the last", text, from_end,
         counted(count, "layers"));
  layers = {count - from_end, count - from_end};
}

void require_of_model(std::string_view name, Stage stage, const PlaceLayers& named) {
  if (is_of_model(stage) && named.names_layer())
    fail("{}: {} is of the whole model, and of no layer: name it {}", name, name_of(stage),
         name_of(stage));
}

AxisPositions::AxisPositions(std::size_t position)
    : AxisPositions(std::vector{static_cast<std::int64_t>(position)}) {}

AxisPositions::AxisPositions(const std::vector<std::int64_t>& positions) {
  text_ = fmt::format("{}", fmt::join(positions, ","));
  if (positions.size() > 1) text_ = "[" + text_ + "]";
  for (const std::int64_t position : positions)
    parts_.emplace_back(IndexList::of_position(position));
}

AxisPositions::AxisPositions(std::string_view written, const std::string& where) : text_(written) {
  if (written != "*" && written != ":") add(written, where);
}

void AxisPositions::add(std::string_view written, const std::string& where) {
  if (written.starts_with('[') && written.ends_with(']')) {
    for (const std::string& part : split_axes(written.substr(1, written.size() - 2)))
      add(part, where);
  } else if (written.starts_with('\'')) {
    const std::size_t end = written.rfind('\'');
    Token& token = std::get<Token>(parts_.emplace_back(Token{"", {}, std::string(written)}));
    const std::string_view rest = written.substr(end + 1);
    if (!rest.empty() && rest.front() == '#')
      token.which = parse_number<std::size_t>(rest.substr(1));
    if (end == 0 || (!rest.empty() && !token.which))
      fail("{}: {}: 'TEXT' or 'TEXT'#N expected", where, written);
    token.word = unquoted(written.substr(0, end + 1));
  } else if (written.empty()) {
    fail("{}: an axis is empty: *, an index, a-b, a:b or a list in brackets expected", where);
  } else {
    parts_.emplace_back(IndexList(std::string(written == "*" ? ":" : written), where + ":"));
  }
}

std::vector<std::size_t> AxisPositions::of(const ItemAxis& axis) const {
  if (all()) return axis.own;
  std::vector<std::size_t> list;
  for (const auto& part : parts_) {
    if (const Token* token = std::get_if<Token>(&part)) {
      add_once(list, axis.own[position_of(token->word, token->which, token->text, axis)]);
      continue;
    }
    const Message prefix =
        axis.differs ? message("{}: text {}:", axis.where, axis.text) : message("{}:", axis.where);
    const Pick pick = std::get<IndexList>(part).resolve(axis.own.size(), axis.word, prefix);
    for (const std::size_t i : pick.indices) add_once(list, axis.own[i]);
  }
  return list;
}

void StagePlace::set_axes(std::vector<AxisPositions> of_place) {
  axes = std::move(of_place);
  while (!axes.empty() && axes.back().all()) axes.pop_back();
}

const AxisPositions& StagePlace::axis(std::size_t number) const {
  static const AxisPositions all;
  return number < axes.size() ? axes[number] : all;
}

std::string StagePlace::text() const {
  std::size_t count = axes.size();
  while (count > 0 && axes[count - 1].all()) --count;
  std::string list;
  for (std::size_t i = 0; i < count; ++i) list += (i > 0 ? "," : "") + axes[i].text();
  return list.empty() ? name : fmt::format("{}[{}]", name, list);
}

StagePlace parse_place(std::string_view written, const std::string& where, StageNames names) {
  StagePlace place;
  written = trimmed(written);
  if (const std::size_t bracket = written.find('['); bracket != std::string_view::npos) {
    if (written.back() != ']') fail("{}: ] expected at the end of the place", where);
    for (const std::string& axis :
         split_axes(written.substr(bracket + 1, written.size() - bracket - 2)))
      place.axes.emplace_back(axis, where);
    written = trimmed(written.substr(0, bracket));
  }
  place.name = written;
  static_cast<PlaceLayers&>(place) = layers_of_place(place.name, where);
  const StageOfPlace named = names(place.name);
  place.stage = named.stage, place.prefers_add = named.prefers_add;
  if (is_derived(place.stage))
    fail("{}: {} is made of other stages; patch those: {}", where, name_of(place.stage),
         joined_names(info_of(place.stage).inputs));
  require_of_model(place.name, place.stage, place);
  return place;
}

Stage stage_of_place(const StagePlace& place, const Layer& layer) {
  const Stage add = place.stage == Stage::output ? Stage::attn_add : Stage::mlp_add;
  return place.prefers_add && has_step(layer, add) ? add : place.stage;
}

namespace {

/// Takes the columns of the experts that a place names, which are side by side in memory.
void take_columns_of_chosen(PlaceAxes& place, const StagePlace& written, std::size_t count,
                            std::size_t width, const Message& where) {
  const auto positions = [&](std::size_t axis, std::size_t size, std::string_view word) {
    std::vector<std::size_t> own(size);
    std::iota(own.begin(), own.end(), std::size_t{0});
    return written.axis(axis).of({.where = where, .word = word, .own = std::move(own)});
  };
  const std::vector<std::size_t> of_one = positions(3, width, "columns"),
                                 chosen = positions(2, count, "chosen experts");
  place.chosen = chosen.size();
  place.columns.resize(1);
  for (const std::size_t j : chosen)
    for (const std::size_t c : of_one) place.columns[0].push_back(j * width + c);
}

} // namespace

PlaceAxes axes_of(const StagePlace& written, const Layer& layer, Stage stage,
                  const Message& where) {
  const StageInfo& info = info_of(stage);
  const std::vector<Dim>& letters = info.letters;
  const std::size_t experts = experts_side_by_side(layer, stage);
  PlaceAxes place;
  place.with_heads = letters.size() == 3 || info.kind == Kind::row;
  place.with_columns = info.kind != Kind::row;
  const std::size_t most = experts > 0 ? 4 : place.with_columns ? 3 : 2;
  if (written.axes.size() > most)
    fail("{}: {} has {} axes: [{}]", where, info.name,
         most == 4   ? "four"
         : most == 3 ? "three"
                     : "two",
         most == 4   ? "*,tokens,chosen,columns"
         : most == 3 ? "heads,tokens,columns"
                     : "heads,tokens");
  if (!place.with_heads && !written.axis(0).all())
    fail("{}: {} has no heads; its first axis is *: {}[*,{}]", where, info.name, info.name,
         written.axis(0).text());
  const Dim rows = letters[place.with_heads ? 1 : 0], last = letters.back();
  place.heads = {0};
  if (place.with_heads) place.heads = written.axis(0).of(axis_of_item(where, layer, letters[0], 0));
  const bool of_keys = place.with_columns && axis_of(last) == Axis::key;
  if (!place.with_columns) place.columns = {{0}};
  if (experts > 0)
    take_columns_of_chosen(place, written, experts, layer.dims.size_of(last) / experts, where);
  for (std::size_t b = 0; b < layer.dims.B; ++b) {
    place.tokens.push_back(written.axis(1).of(axis_of_item(where, layer, rows, b)));
    if (of_keys || place.columns.empty())
      place.columns.push_back(written.axis(2).of(axis_of_item(where, layer, last, b)));
  }
  const auto is_empty = [](const auto& list) { return list.empty(); };
  if (place.heads.empty() || std::ranges::any_of(place.tokens, is_empty) ||
      std::ranges::any_of(place.columns, is_empty))
    fail("{}: the place holds no number", where);
  return place;
}

ResolvedEdit patch_at(const PlaceAxes& place, const Layer& layer, Stage stage) {
  const Dims& dims = layer.dims;
  const std::vector<Dim>& letters = info_of(stage).letters;
  ResolvedEdit patch;
  patch.stage = stage;
  patch.heads = PatchedAxis(place.heads, place.with_heads ? dims.size_of(letters[0]) : 1);
  patch.tokens = patched_axes(place.tokens, dims.size_of(letters[place.with_heads ? 1 : 0]));
  patch.columns =
      patched_axes(place.columns, place.with_columns ? dims.size_of(letters.back()) : 1);
  return patch;
}

} // namespace mha
