#include <mha/load/patch_text.hpp>

#include <mha/layer/apply_axes.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/select.hpp>
#include <mha/layer/token_words.hpp>
#include <mha/load/source.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <filesystem>

namespace mha {

namespace {

constexpr std::string_view form = "PLACE = VALUE expected, with =, += or *=, such as "
                                  "'layers.3.head_out[0] = zero' or 'weights[2,-1,0] *= 0.5'";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Where the first of these characters stands outside of quotes and brackets.
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

void read_stage(PatchText& patch) {
  const std::string_view word = last_part(patch.place);
  patch.prefers_add = word == "hook_attn_out" || word == "hook_mlp_out";
  patch.stage = word == "resid_mid" ? Stage::residual : stage_named(patch.place);
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

/// Positions on an axis of `count`.
std::vector<std::size_t> positions_of(std::string_view word, std::size_t count, Axis axis,
                                      const std::vector<std::string>& labels,
                                      const std::string& patch, std::size_t text) {
  std::vector<std::size_t> list;
  if (word == "*" || word == ":") {
    for (std::size_t i = 0; i < count; ++i) list.push_back(i);
    return list;
  }
  if (word.starts_with('[') && word.ends_with(']')) {
    for (const std::string& one : split_axes(word.substr(1, word.size() - 2)))
      for (std::size_t position : positions_of(one, count, axis, labels, patch, text))
        add_once(list, position);
    return list;
  }
  if (word.starts_with('\'')) return {position_of(word, labels, patch, text)};
  if (word.empty())
    fail("{}: an axis is empty: *, an index, a-b, a:b or a list in brackets expected", patch);
  return IndexList(std::string(word), patch + ":").resolve(count, word_of(axis)).indices;
}

/// A stage's axes behind the batch: heads (or none), tokens, columns (or none).
struct PlaceAxes {
  std::vector<std::size_t> heads, columns;
  std::vector<std::vector<std::size_t>> tokens; ///< of each batch item
  bool with_heads = false, with_columns = false;
};

PlaceAxes axes_of(const PatchText& patch, const Layer& layer, Stage stage, StagePatch& to) {
  const StageInfo& info = info_of(stage);
  const Dims& dims = layer.dims;
  const std::vector<Dim>& letters = info.letters;
  PlaceAxes place;
  place.with_heads = letters.size() == 3 || info.kind == Kind::row;
  place.with_columns = info.kind != Kind::row;
  const Dim token_dim = letters[place.with_heads ? 1 : 0];
  const auto word = [&](std::size_t i) { return i < patch.axes.size() ? patch.axes[i] : "*"; };
  if (patch.axes.size() > (place.with_columns ? 3u : 2u))
    fail("{}: {} has {} axes: [{}]", patch.text, info.name, place.with_columns ? "three" : "two",
         place.with_columns ? "heads,tokens,columns" : "heads,tokens");
  if (!place.with_heads && word(0) != "*")
    fail("{}: {} has no heads; its first axis is *: {}[*,{}]", patch.text, info.name, info.name,
         word(0));
  static const std::vector<std::string> none;
  const std::size_t heads = place.with_heads ? dims.size_of(letters[0]) : 1;
  place.heads = positions_of(word(0), heads, Axis::head, none, patch.text, 0);
  const bool of_keys = axis_of(token_dim) == Axis::key;
  for (std::size_t b = 0; b < dims.B; ++b) {
    const std::size_t all = dims.size_of(token_dim);
    const bool padded = !layer.lengths.empty() && all == dims.T;
    place.tokens.push_back(positions_of(word(1), padded ? layer.length_of(b) : all, Axis::query,
                                        of_keys ? layer.key_tokens_of(b) : layer.tokens_of(b),
                                        patch.text, b));
  }
  const Dim last = letters.back();
  const std::size_t columns = place.with_columns ? dims.size_of(last) : 1;
  place.columns = positions_of(word(2), columns, axis_of(last),
                               axis_of(last) == Axis::key ? layer.key_tokens : none, patch.text, 0);
  if (place.heads.empty() || place.columns.empty() ||
      std::ranges::any_of(place.tokens, [](const auto& list) { return list.empty(); }))
    fail("{}: the place holds no number", patch.text);
  to.heads = PatchedAxis(place.heads, heads);
  to.columns = PatchedAxis(place.columns, columns);
  for (const std::vector<std::size_t>& list : place.tokens)
    to.tokens.emplace_back(list, dims.size_of(token_dim));
  return place;
}

/// The value's strides over the place, as NumPy broadcasts.
void broadcast(const PatchText& patch, const Layer& layer, const PlaceAxes& place, Tensor value,
               StagePatch& to) {
  const std::size_t tokens = place.tokens[0].size();
  // Of the place: its axes, and which stride of the patch each is.
  std::vector<std::pair<std::size_t, std::size_t>> axes;
  if (layer.dims.batched) axes.emplace_back(layer.dims.B, 0);
  if (place.with_heads) axes.emplace_back(place.heads.size(), 1);
  axes.emplace_back(tokens, 2);
  if (place.with_columns) axes.emplace_back(place.columns.size(), 3);
  const Shape& shape = value.shape();
  Shape wanted;
  for (const auto& [length, which] : axes) wanted.push_back(length);
  const auto refuse = [&] {
    fail("{}: the value is {}, the place {}", patch.text, to_string(shape), to_string(wanted));
  };
  std::size_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t length = shape[shape.size() - 1 - i];
    if (i >= axes.size()) {
      if (length != 1) refuse();
      continue;
    }
    const auto [expected, which] = axes[axes.size() - 1 - i];
    if (which == 2 && length != 1)
      for (const std::vector<std::size_t>& list : place.tokens)
        if (list.size() != tokens)
          fail("{}: the texts have {} and {} of these tokens; only a value without an axis of "
               "tokens fits both",
               patch.text, tokens, list.size());
    if (length != 1 && length != expected) refuse();
    to.strides[which] = length == 1 ? 0 : stride;
    stride *= length;
  }
  to.value = convert(value, layer.dtype);
}

Tensor scalar(double number) {
  return Tensor::of<double>({1}, std::span(&number, 1));
}

/// At the place, the numbers of a whole stage of another run: batch (1: the same for all), heads,
/// tokens, columns.
Tensor same_place(const PatchText& patch, const Layer& layer, const PlaceAxes& place, Stage stage,
                  const Tensor& whole) {
  const Dims& dims = layer.dims;
  const Shape& shape = whole.shape();
  const std::vector<Dim>& letters = info_of(stage).letters;
  const std::size_t heads = place.with_heads ? shape[1] : 1;
  const std::size_t rows = shape[place.with_heads ? 2 : 1];
  const std::size_t cols = place.with_columns ? shape.back() : 1;
  const std::size_t here = dims.size_of(letters[place.with_heads ? 1 : 0]);
  if (shape[0] != 1 && shape[0] != dims.B)
    fail("{}: the other run has {}, this one {}: one, or as many, expected", patch.text,
         counted(shape[0], "texts"), dims.B);
  if (rows != here ||
      (axis_of(letters.back()) == Axis::key && cols != dims.size_of(letters.back())))
    fail("{}: the other text has {}, this one {}: the same place needs the same number of tokens; "
         "<pieces show> both",
         patch.text, counted(rows, "tokens"), here);
  Shape result{dims.B, place.heads.size(), place.tokens[0].size(), place.columns.size()};
  Tensor value(DType::f64, result);
  double* to = value.as_mutable<double>().data();
  for (std::size_t b = 0; b < dims.B; ++b)
    for (std::size_t h : place.heads)
      for (std::size_t t : place.tokens[b])
        for (std::size_t c : place.columns)
          *to++ = value_at(whole, (((shape[0] > 1 ? b : 0) * heads + h) * rows + t) * cols + c);
  Shape as_seen;
  if (dims.batched) as_seen.push_back(dims.B);
  if (place.with_heads) as_seen.push_back(place.heads.size());
  as_seen.push_back(place.tokens[0].size());
  if (place.with_columns) as_seen.push_back(place.columns.size());
  return value.reshaped(as_seen);
}

/// The mean of a token stage over the positions of all texts that are no padding: per head and
/// column, summed in the order of texts.
Tensor mean_of(const Layer& layer, const PlaceAxes& place, const Tensor& whole) {
  const Shape& shape = whole.shape();
  const std::size_t heads = place.with_heads ? shape[1] : 1;
  const std::size_t rows = shape[place.with_heads ? 2 : 1], cols = shape.back();
  Tensor value(DType::f64, place.with_heads ? Shape{place.heads.size(), 1, place.columns.size()}
                                            : Shape{1, place.columns.size()});
  double* to = value.as_mutable<double>().data();
  for (std::size_t h : place.heads)
    for (std::size_t c : place.columns) {
      double sum = 0;
      std::size_t count = 0;
      for (std::size_t b = 0; b < shape[0]; ++b) {
        const std::size_t own =
            layer.lengths.empty() || rows != layer.dims.T ? rows : layer.length_of(b);
        for (std::size_t t = 0; t < own; ++t, ++count)
          sum += value_at(whole, ((b * heads + h) * rows + t) * cols + c);
      }
      *to++ = sum / static_cast<double>(count);
    }
  return value;
}

/// FILE[:TENSOR][@AXES].
Tensor read_patch_file(const PatchText& patch, Stage stage, std::size_t number) {
  const std::string name(name_of(stage));
  io::Source source = io::parse_source(name + "=" + patch.value);
  const bool is_word = source.path.find_first_of("./:@") == std::string::npos;
  std::error_code ignored;
  if (source.name.empty() || (is_word && !std::filesystem::exists(source.path, ignored)))
    fail("{}: '{}' is no value: a number, zero, mean, FILE[:TENSOR][@AXES] or from 'TEXT' expected",
         patch.text, patch.value);
  source = io::with_layer(source, std::to_string(number));
  const Tensor tensor = io::bound_entry(source).read();
  return source.axes.empty() ? tensor
                             : apply_axes(name, tensor, source.axes, number, patch.text).tensor;
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
        fail("{}: '{}' is no layer: a number, A-B or * expected: layers.3.weights", text, word);
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

Stage stage_of_place(const PatchText& patch, const Layer& layer) {
  const Stage add = patch.stage == Stage::output ? Stage::attn_add : Stage::mlp_add;
  return patch.prefers_add && has_step(layer, add) ? add : patch.stage;
}

PatchText parse_patch(const std::string& text) {
  PatchText patch;
  patch.text = text;
  const std::size_t equals = find_outside(text, "=");
  if (equals == std::string::npos || equals == 0) fail("patch '{}': {}", text, form);
  std::string_view left(text.data(), equals);
  if (left.back() == '+') patch.op = PatchOp::add;
  if (left.back() == '*' && !trimmed(left.substr(0, left.size() - 1)).ends_with('.'))
    patch.op = PatchOp::multiply;
  if (patch.op != PatchOp::set) left.remove_suffix(1);
  left = trimmed(left);
  patch.value = trimmed(std::string_view(text).substr(equals + 1));
  if (const std::size_t bracket = left.find('['); bracket != std::string_view::npos) {
    if (left.back() != ']') fail("patch '{}': ] expected behind the place: {}", text, form);
    patch.axes = split_axes(left.substr(bracket + 1, left.size() - bracket - 2));
    left = trimmed(left.substr(0, bracket));
  }
  patch.place = left;
  if (patch.place.empty() || patch.value.empty()) fail("patch '{}': {}", text, form);
  static_cast<PlaceLayers&>(patch) = layers_of_place(patch.place, patch.text);
  read_stage(patch);
  require_of_model(patch.place, patch.stage, patch);
  return patch;
}

PatchRows rows_of_place(const PatchText& patch, const Layer& layer) {
  StagePatch unused;
  PlaceAxes place = axes_of(patch, layer, patch.stage, unused);
  return {std::move(place.heads), std::move(place.tokens)};
}

StagePatch resolve_patch(const PatchText& patch, const Layer& layer, std::size_t number,
                         const UnpatchedStage& unpatched) {
  StagePatch to;
  to.stage = stage_of_place(patch, layer);
  require_stage(layer, to.stage);
  if (layer.settings.columns)
    fail("{}: patches count tokens as rows; the layer's tokens are columns", patch.text);
  to.op = patch.op, to.text = patch.text;
  const PlaceAxes place = axes_of(patch, layer, to.stage, to);
  const std::optional<double> every = patch.value == "zero" ? 0 : parse_number<double>(patch.value);
  const Kind kind = info_of(to.stage).kind;
  if (patch.tensor) {
    broadcast(patch, layer, place, *patch.tensor, to);
  } else if (every) {
    broadcast(patch, layer, place, scalar(*every), to);
  } else if (patch.value == "mean") {
    if (kind == Kind::map || kind == Kind::row)
      fail("{}: a mean over positions is for stages of tokens; {} has keys, which differ in number",
           patch.text, name_of(to.stage));
    broadcast(patch, layer, place, mean_of(layer, place, unpatched(to.stage, patch.value)), to);
  } else if (patch.value.starts_with("from ")) {
    const Tensor whole = unpatched(to.stage, patch.value);
    broadcast(patch, layer, place, same_place(patch, layer, place, to.stage, whole), to);
  } else {
    broadcast(patch, layer, place, read_patch_file(patch, to.stage, number), to);
  }
  return to;
}

} // namespace mha
