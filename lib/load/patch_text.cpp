#include <mha/load/patch_text.hpp>

#include <mha/layer/apply_axes.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/select.hpp>
#include <mha/load/patch_place.hpp>
#include <mha/load/source.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace mha {

namespace {

constexpr std::string_view form = "PLACE = VALUE expected, with =, += or *=, such as "
                                  "'layers.3.head_out[0] = zero' or 'weights[2,-1,0] *= 0.5'";

void read_stage(PatchText& patch) {
  const std::string_view word = last_part(patch.place);
  patch.prefers_add = word == "hook_attn_out" || word == "hook_mlp_out";
  patch.stage = word == "resid_mid" ? Stage::residual : stage_named(patch.place);
}

/// Throws Error where texts have different numbers of an axis' positions in the place.
void require_same_count(const PatchText& patch, const std::vector<std::vector<std::size_t>>& items,
                        std::string_view what) {
  for (const std::vector<std::size_t>& list : items)
    if (list.size() != items[0].size())
      fail("{}: the texts have {} and {} of these {}; only a value without an axis of {} fits both",
           patch.text, items[0].size(), list.size(), what, what);
}

/// The value's strides over the place, as NumPy broadcasts.
void broadcast(const PatchText& patch, const Layer& layer, const PlaceAxes& place, Tensor value,
               StagePatch& to) {
  // Of the place: its axes, and which stride of the patch each is.
  std::vector<std::pair<std::size_t, std::size_t>> axes;
  if (layer.dims.batched) axes.emplace_back(layer.dims.B, 0);
  if (place.with_heads) axes.emplace_back(place.heads.size(), 1);
  axes.emplace_back(place.tokens[0].size(), 2);
  if (place.with_columns) axes.emplace_back(place.columns[0].size(), 3);
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
    if (which == 2 && length != 1) require_same_count(patch, place.tokens, "tokens");
    if (which == 3 && length != 1) require_same_count(patch, place.columns, "keys");
    if (length != 1 && length != expected) refuse();
    to.strides[which] = length == 1 ? 0 : stride;
    stride *= length;
  }
  to.value = convert(value, layer.dtype);
}

Tensor scalar(double number) {
  return Tensor::of<double>({1}, std::span(&number, 1));
}

/// Throws Error where another run's texts do not have this one's tokens, one for one.
void require_same_tokens(const PatchText& patch, const Layer& layer, const UnpatchedValues& other) {
  const std::size_t texts = other.values.shape()[0];
  if (texts != 1 && texts != layer.dims.B)
    fail("{}: the other run has {}, this one {}: one, or as many, expected", patch.text,
         counted(texts, "texts"), layer.dims.B);
  for (std::size_t b = 0; b < layer.dims.B && !other.lengths.empty(); ++b)
    if (const std::size_t length = other.lengths[texts > 1 ? b : 0]; length != layer.length_of(b))
      fail("{}: {}the other text has {}, this one {}: the same place needs the same number of "
           "tokens; <pieces show> both",
           patch.text, layer.dims.B > 1 ? fmt::format("text {}: ", b) : "",
           counted(length, "tokens"), layer.length_of(b));
}

/// Sets a patch's value to the numbers that another run has at the place: of each batch item as
/// many as it has there.
void take_same_place(const PatchText& patch, const Layer& layer, const PlaceAxes& place,
                     const UnpatchedValues& other, StagePatch& to) {
  const Dims& dims = layer.dims;
  const Tensor& whole = other.values;
  const Shape& shape = whole.shape();
  const std::vector<Dim>& letters = info_of(to.stage).letters;
  const std::size_t heads = place.with_heads ? shape[1] : 1;
  const std::size_t rows = shape[place.with_heads ? 2 : 1];
  const std::size_t cols = place.with_columns ? shape.back() : 1;
  require_same_tokens(patch, layer, other);
  const std::size_t here = dims.size_of(letters[place.with_heads ? 1 : 0]);
  if (rows != here ||
      (axis_of(letters.back()) == Axis::key && cols != dims.size_of(letters.back())))
    fail("{}: the other text has {}, this one {}: the same place needs the same number of tokens; "
         "<pieces show> both",
         patch.text, counted(rows, "tokens"), here);
  const auto longest = [](const std::vector<std::vector<std::size_t>>& items) {
    return std::ranges::max_element(items, {}, &std::vector<std::size_t>::size)->size();
  };
  const std::size_t tokens = longest(place.tokens), columns = longest(place.columns);
  Tensor value(DType::f64, {dims.B, place.heads.size(), tokens, columns});
  to.strides = {place.heads.size() * tokens * columns, tokens * columns, columns, 1};
  double* const numbers = value.as_mutable<double>().data();
  for (std::size_t b = 0; b < dims.B; ++b)
    for (std::size_t h = 0; h < place.heads.size(); ++h)
      for (std::size_t t = 0; t < place.tokens[b].size(); ++t) {
        const std::size_t row =
            (((shape[0] > 1 ? b : 0) * heads + place.heads[h]) * rows + place.tokens[b][t]) * cols;
        double* const at = numbers + b * to.strides[0] + h * to.strides[1] + t * columns;
        const std::vector<std::size_t>& own = place.columns_of(b);
        for (std::size_t c = 0; c < own.size(); ++c) at[c] = value_at(whole, row + own[c]);
      }
  to.value = convert(value, layer.dtype);
}

/// The mean of a token stage over the positions of all texts that are no padding: per head and
/// column, summed in the order of texts.
Tensor mean_of(const Layer& layer, const PlaceAxes& place, Stage stage, const Tensor& whole) {
  const Shape& shape = whole.shape();
  const std::size_t heads = place.with_heads ? shape[1] : 1;
  const std::size_t rows = shape[place.with_heads ? 2 : 1], cols = shape.back();
  const Dim letter = info_of(stage).letters[place.with_heads ? 1 : 0];
  const std::vector<std::size_t>& columns = place.columns[0];
  Tensor value(DType::f64, place.with_heads ? Shape{place.heads.size(), 1, columns.size()}
                                            : Shape{1, columns.size()});
  std::vector<std::vector<std::size_t>> own;
  std::size_t count = 0;
  for (std::size_t b = 0; b < shape[0]; ++b) {
    if (rows == layer.dims.size_of(letter)) {
      own.push_back(own_positions(layer, letter, b));
    } else { // means of texts, a row for all
      own.emplace_back(rows);
      std::iota(own.back().begin(), own.back().end(), std::size_t{0});
    }
    count += own.back().size();
  }
  double* to = value.as_mutable<double>().data();
  for (std::size_t h : place.heads)
    for (std::size_t c : columns) {
      double sum = 0;
      for (std::size_t b = 0; b < shape[0]; ++b)
        for (const std::size_t t : own[b])
          sum += value_at(whole, ((b * heads + h) * rows + t) * cols + c);
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
    const Tensor whole = unpatched(to.stage, patch.value).values;
    broadcast(patch, layer, place, mean_of(layer, place, to.stage, whole), to);
  } else if (patch.value.starts_with("from ")) {
    take_same_place(patch, layer, place, unpatched(to.stage, patch.value), to);
  } else {
    broadcast(patch, layer, place, read_patch_file(patch, to.stage, number), to);
  }
  return to;
}

} // namespace mha
