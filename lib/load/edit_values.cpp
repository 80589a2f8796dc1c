// Computes the values that edits give their places.

#include <mha/load/edit.hpp>

#include <mha/layer/graph.hpp>
#include <mha/layer/tensor_place.hpp>
#include <mha/load/source.hpp>
#include <mha/naming/apply_axes.hpp>
#include <mha/naming/place_names.hpp>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace mha {

namespace {

/// Throws Error where the texts have different numbers of positions in the place.
void require_same_count(const StageEdit& edit, const std::vector<std::vector<std::size_t>>& items,
                        std::string_view what) {
  for (const std::vector<std::size_t>& list : items)
    if (list.size() != items[0].size())
      fail("{}: the texts have {} and {} of these {}; only a value without an axis of {} fits both",
           edit.text, items[0].size(), list.size(), what, what);
}

/// A value times a factor, in float64 where it is not 1.
Tensor times(const Tensor& value, double factor) {
  if (factor == 1) return value;
  Tensor product = copy_of(view_of(convert(value, DType::f64)));
  for (double& number : product.as_mutable<double>()) number *= factor;
  return product;
}

/// A value with the place's chosen experts side by side, as their columns are.
Tensor side_by_side(const PlaceAxes& place, const Tensor& value) {
  Shape shape = value.shape();
  const std::size_t rank = shape.size();
  if (place.chosen == 0 || rank < 2 || shape[rank - 2] != place.chosen ||
      shape[rank - 1] * place.chosen != place.columns[0].size())
    return value;
  shape.pop_back();
  shape.back() = place.columns[0].size();
  return value.reshaped(shape);
}

/// Sets the patch's value and its strides over the place, broadcast as in NumPy; `items`: the
/// length of its batch axis, 0 without one.
void set_value(const StageEdit& edit, std::size_t items, DType dtype, const PlaceAxes& place,
               const Tensor& given, ResolvedEdit& to) {
  const Tensor value = side_by_side(place, given);
  // The lengths of the place's axes, each with the index of its stride in the patch.
  std::vector<std::pair<std::size_t, std::size_t>> axes;
  if (items > 0) axes.emplace_back(items, 0);
  if (place.with_heads) axes.emplace_back(place.heads.size(), 1);
  axes.emplace_back(place.tokens[0].size(), 2);
  if (place.with_columns) axes.emplace_back(place.columns[0].size(), 3);
  const Shape& shape = value.shape();
  Shape wanted;
  for (const auto& [length, which] : axes) wanted.push_back(length);
  const auto refuse = [&] {
    fail("{}: the value is {}, the place {}", edit.text, to_string(shape), to_string(wanted));
  };
  std::size_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t length = shape[shape.size() - 1 - i];
    if (i >= axes.size()) {
      if (length != 1) refuse();
      continue;
    }
    const auto [expected, which] = axes[axes.size() - 1 - i];
    if (which == 2 && length != 1) require_same_count(edit, place.tokens, "tokens");
    if (which == 3 && length != 1) require_same_count(edit, place.columns, "keys");
    if (length != 1 && length != expected) refuse();
    to.strides[which] = length == 1 ? 0 : stride;
    stride *= length;
  }
  to.value = convert(times(value, edit.value.factor), dtype);
}
void set_value(const StageEdit& edit, const Layer& layer, const PlaceAxes& place, Tensor value,
               ResolvedEdit& to) {
  set_value(edit, layer.dims.batched ? layer.dims.B : 0, layer.dtype, place, std::move(value), to);
}

Tensor scalar(double number) {
  return Tensor::of<double>({1}, std::span(&number, 1));
}

/// Throws Error where another run's texts do not have as many tokens as this run's.
void require_same_tokens(const StageEdit& edit, const Layer& layer, const UnpatchedValues& other) {
  const std::size_t texts = other.values.shape()[0];
  if (texts != 1 && texts != layer.dims.B)
    fail("{}: the other run has {}, this one {}: one, or as many, expected", edit.text,
         counted(texts, "texts"), layer.dims.B);
  for (std::size_t b = 0; b < layer.dims.B && !other.lengths.empty(); ++b)
    if (const std::size_t length = other.lengths[texts > 1 ? b : 0]; length != layer.length_of(b))
      fail("{}: {}the other text has {}, this one {}: the same place needs the same number of "
           "tokens; <pieces show> both",
           edit.text, layer.dims.B > 1 ? fmt::format("text {}: ", b) : "",
           counted(length, "tokens"), layer.length_of(b));
}

/// Zeros for the place in every batch item, with their strides in the patch. Items with fewer
/// tokens or keys leave the rest zero.
Tensor zeros_at(const PlaceAxes& place, std::size_t items, ResolvedEdit& to) {
  const auto longest = [](const std::vector<std::vector<std::size_t>>& lists) {
    return std::ranges::max_element(lists, {}, &std::vector<std::size_t>::size)->size();
  };
  const std::size_t heads = place.heads.size(), tokens = longest(place.tokens),
                    columns = longest(place.columns);
  to.strides = {heads * tokens * columns, tokens * columns, columns, 1};
  return Tensor(DType::f64, {items, heads, tokens, columns});
}

/// Sets a patch's value to the numbers of another run at the same place, for each batch item as
/// many as it has there.
void take_same_place(const StageEdit& edit, const Layer& layer, const PlaceAxes& place,
                     const UnpatchedValues& other, ResolvedEdit& to) {
  const Dims& dims = layer.dims;
  const Tensor& whole = other.values;
  const Shape& shape = whole.shape();
  const std::vector<Dim>& letters = info_of(to.stage).letters;
  const std::size_t heads = place.with_heads ? shape[1] : 1;
  const std::size_t rows = shape[place.with_heads ? 2 : 1];
  const std::size_t cols = place.with_columns ? shape.back() : 1;
  require_same_tokens(edit, layer, other);
  const std::size_t here = dims.size_of(letters[place.with_heads ? 1 : 0]);
  if (rows != here ||
      (axis_of(letters.back()) == Axis::key && cols != dims.size_of(letters.back())))
    fail("{}: the other text has {}, this one {}: the same place needs the same number of tokens; "
         "<pieces show> both",
         edit.text, counted(rows, "tokens"), here);
  Tensor value = zeros_at(place, dims.B, to);
  double* const numbers = value.as_mutable<double>().data();
  for (std::size_t b = 0; b < dims.B; ++b)
    for (std::size_t h = 0; h < place.heads.size(); ++h)
      for (std::size_t t = 0; t < place.tokens[b].size(); ++t) {
        const std::size_t row =
            (((shape[0] > 1 ? b : 0) * heads + place.heads[h]) * rows + place.tokens[b][t]) * cols;
        double* const at = numbers + b * to.strides[0] + h * to.strides[1] + t * to.strides[2];
        const std::vector<std::size_t>& own = place.columns_of(b);
        for (std::size_t c = 0; c < own.size(); ++c) at[c] = value_at(whole, row + own[c]);
      }
  to.value = convert(times(value, edit.value.factor), layer.dtype);
}

/// Adds to `value` (batch items, heads, tokens, columns of a place) `sign` times another run's
/// numbers at the same place, or at the tokens that it names; a single token serves all.
void add_run(const StageEdit& edit, const ValueSource& run, double sign, const Layer& layer,
             const PlaceAxes& place, const UnpatchedValues& other, ResolvedEdit& to,
             Tensor& value) {
  const Layer& located = other.tokens.dims.B > 0 ? other.tokens : layer;
  const std::size_t texts = other.values.shape()[0];
  if (texts != 1 && texts != layer.dims.B)
    fail("{}: {} has {}, this run {}: one, or as many, expected", edit.text, run.text,
         counted(texts, "texts"), layer.dims.B);
  StagePlace named = edit.place;
  if (run.tokens) {
    named.axes.resize(std::max<std::size_t>(named.axes.size(), 2));
    named.axes[1] = *run.tokens;
  }
  const PlaceAxes at = axes_of(named, located, to.stage, message("{}: {}", edit.text, run.text));
  const Shape& shape = other.values.shape();
  const std::size_t heads = place.with_heads ? shape[1] : 1, rows = shape[place.with_heads ? 2 : 1],
                    cols = place.with_columns ? shape.back() : 1;
  double* const numbers = value.as_mutable<double>().data();
  for (std::size_t b = 0; b < layer.dims.B; ++b) {
    const std::size_t text = texts > 1 ? b : 0;
    const std::vector<std::size_t>&tokens = at.tokens[text], &columns = at.columns_of(text);
    const std::size_t own = place.tokens[b].size(), wide = place.columns_of(b).size();
    if (tokens.size() != 1 && tokens.size() != own)
      fail("{}: {} has {} at the place, this run {}: as many expected, or one, which is named: "
           "{}[-1]",
           edit.text, run.text, counted(tokens.size(), "tokens"), own, run.text);
    if (columns.size() != wide)
      fail("{}: {} has {} at the place, this run {}: as many expected", edit.text, run.text,
           counted(columns.size(), "columns"), wide);
    for (std::size_t h = 0; h < place.heads.size(); ++h)
      for (std::size_t t = 0; t < own; ++t) {
        const std::size_t token = tokens[tokens.size() > 1 ? t : 0],
                          row = ((text * heads + at.heads[h]) * rows + token) * cols;
        double* const to_row = numbers + b * to.strides[0] + h * to.strides[1] + t * to.strides[2];
        for (std::size_t c = 0; c < wide; ++c)
          to_row[c] += sign * value_at(other.values, row + columns[c]);
      }
  }
}

/// Sets a patch's value to one run's numbers minus another's.
void take_runs(const StageEdit& edit, const Layer& layer, const PlaceAxes& place,
               const UnpatchedStage& unpatched, ResolvedEdit& to) {
  Tensor value = zeros_at(place, layer.dims.B, to);
  const auto add = [&](const ValueSource& run, double sign) {
    add_run(edit, run, sign, layer, place, unpatched(to.stage, run.text), to, value);
  };
  add(edit.value.run, 1);
  if (edit.value.less) add(*edit.value.less, -1);
  to.value = convert(times(value, edit.value.factor), layer.dtype);
}

/// The mean of a token stage over the positions of all texts without padding: per head and column,
/// summed in the order of texts.
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
    } else { // means over texts: a common row
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

/// Reads FILE[:TENSOR][@AXES] for a stage or a tensor.
Tensor read_patch_file(const StageEdit& edit, const std::string& name, std::size_t number) {
  io::Source source = io::parse_source(name + "=" + edit.value.file);
  const bool is_word = source.path.find_first_of("./:@") == std::string::npos;
  std::error_code ignored;
  if (source.name.empty() || (is_word && !std::filesystem::exists(source.path, ignored)))
    fail("{}: '{}' is not a value: a number, zero, mean, FILE[:TENSOR][@AXES] or from 'TEXT' "
         "expected, "
         "or a number times one of these",
         edit.text, edit.value.file);
  source = io::with_layer(source, std::to_string(number));
  const Tensor tensor = io::bound_entry(source).read();
  return source.axes.empty() ? tensor
                             : apply_axes(name, tensor, source.axes, number, edit.text).tensor;
}

} // namespace

Layer tokens_alone(const Layer& layer) {
  Layer alone;
  alone.dims = layer.dims, alone.first_item = layer.first_item, alone.lengths = layer.lengths;
  alone.tokens = layer.tokens, alone.key_tokens = layer.key_tokens;
  alone.item_tokens = layer.item_tokens, alone.item_key_tokens = layer.item_key_tokens;
  return alone;
}

ResolvedEdit patch_of(const StageEdit& edit, const Layer& layer, std::size_t number,
                      const UnpatchedStage& unpatched) {
  const Stage stage = stage_of_place(edit.place, layer);
  require_stage(layer, stage);
  if (layer.settings.columns)
    fail("{}: patches count tokens as rows; the layer's tokens are columns", edit.text);
  const PlaceAxes place = axes_of(edit.place, layer, stage, edit.text);
  ResolvedEdit to = patch_at(place, layer, stage);
  to.op = edit.op, to.text = edit.text;
  const EditValue& value = edit.value;
  switch (value.kind) {
  case EditValue::Kind::number:
    set_value(edit, layer, place, scalar(value.number), to);
    break;
  case EditValue::Kind::tensor:
    set_value(edit, layer, place, value.tensor, to);
    break;
  case EditValue::Kind::file:
    set_value(edit, layer, place, read_patch_file(edit, std::string(name_of(stage)), number), to);
    break;
  case EditValue::Kind::mean:
    if (const Kind kind = info_of(stage).kind; kind == Kind::map || kind == Kind::row)
      fail("{}: a mean over positions is for stages of tokens; {} has keys, which differ in number",
           edit.text, name_of(stage));
    set_value(edit, layer, place, mean_of(layer, place, stage, unpatched(stage, "mean").values),
              to);
    break;
  case EditValue::Kind::run:
    if (value.less || value.run.tokens)
      take_runs(edit, layer, place, unpatched, to);
    else
      take_same_place(edit, layer, place, unpatched(stage, value.run.text), to);
    break;
  }
  return to;
}

bool is_of_tensor(const StageEdit& edit) {
  return tensor_of_place(edit.place.name) != nullptr;
}

IsRead edit_tensor(Layer& layer, const StageEdit& edit, std::size_t number) {
  const TensorInfo& info = *tensor_of_place(edit.place.name);
  const std::string name(info.name);
  if (!info.in_layer.member)
    fail("{}: {} is not stored as given: give another one ({}=FILE), or patch the stage that "
         "is computed from it",
         edit.text, name, name);
  if (info.role == TensorRole::input && layer.block)
    fail("{}: {} is the stream that enters the layer: patch resid_pre", edit.text, name);
  if (layer.settings.columns)
    fail("{}: patches count tokens as rows; the layer's tokens are columns", edit.text);
  if (info.of(layer).empty()) fail("{}: this layer has no {}", edit.text, name);
  const TensorPlace place = place_in(edit.place, info, layer, edit.text);
  ResolvedEdit patch = patch_at(place);
  patch.op = edit.op;
  const EditValue& value = edit.value;
  if (value.is_of_runs())
    fail("{}: {} is of stages; a number, zero or a file expected for {}", edit.text, value.text,
         name);
  const DType dtype = info.in_layer.in_double ? DType::f64 : layer.dtype;
  set_value(edit, info.has_batch() && layer.dims.batched ? place.counts[0] : 0, dtype, place.axes,
            value.kind == EditValue::Kind::number   ? scalar(value.number)
            : value.kind == EditValue::Kind::tensor ? value.tensor
                                                    : read_patch_file(edit, name, number),
            patch);
  Tensor changed = copy_of(view_of(convert(info.of(layer), dtype)));
  apply(patch, place, changed);
  info.of(layer) = std::move(changed);
  ResolvedEdit mark; // of the stages that are computed from the tensor
  mark.text = edit.text;
  if (info.in_layer.readers.none()) *mark.is_read = true;
  for (const Stage reader : info.in_layer.readers) {
    mark.stage = reader;
    layer.patches.list.push_back(mark);
    mark.text.clear(); // named once
  }
  return mark.is_read;
}

} // namespace mha
