#include <mha/compare/parts.hpp>

#include <mha/compare/captures.hpp>
#include <mha/compare/hidden_states.hpp>
#include <mha/layer/graph.hpp>
#include <mha/naming/infer_axes.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/not_saved.hpp>
#include <mha/tensor/parts.hpp>
#include <mha/tensor/precision.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace mha {

namespace {

/// Elements [first, first + count) of one axis.
struct Cut {
  std::size_t axis, first, count;
};

io::Entry cut(const io::Entry& entry, const std::vector<Cut>& parts) {
  if (parts.empty()) return entry;
  io::Entry result = entry;
  for (const Cut& part : parts) result.shape[part.axis] = part.count;
  result.read = [read = entry.read, parts] {
    Tensor tensor = read();
    for (const Cut& part : parts) tensor = part_of_axis(tensor, part.axis, part.first, part.count);
    return tensor;
  };
  return result;
}

/// Whether an entry is a stack of all layers' states, with an axis of layers first.
bool is_stack(const io::Entry& entry) {
  return holds_states(entry.name) &&
         entry.name.find_first_of("0123456789", entry.name.find("s")) == std::string::npos;
}

/// Whether an array may be a map. A token stage as wide as the text is long has a map's shape; the
/// name decides if it is known.
bool may_be_map(const io::Entry& entry) {
  if (holds_states(entry.name)) return entry.name.find("attentions") != std::string::npos;
  const std::vector<Stage> stages = capture_of(entry.name, {}).stages;
  return stages.size() != 1 || info_of(stages[0]).kind == Kind::map;
}

/// The axis of tokens in an array under a stage's own name, whose axes are the stage table's;
/// nothing for other names.
std::optional<std::size_t> axis_of_own_name(const io::Entry& entry) {
  const std::string_view name = last_part(entry.name);
  const std::optional<Stage> stage = find_stage(name);
  if (!stage || info_of(*stage).name != name) return std::nullopt;
  const std::vector<Dim>& letters = info_of(*stage).letters;
  const auto tokens = std::ranges::find_if(letters, [](Dim letter) {
    return letter == Dim::T || letter == Dim::S || letter == Dim::S_all;
  });
  if (tokens == letters.end() || letters.size() > entry.shape.size()) return std::nullopt;
  return entry.shape.size() - static_cast<std::size_t>(letters.end() - tokens);
}

/// The axis of `rows` tokens, not before `from`. In maps it is the axis of queries; in stages known
/// by name it is the stage table's, since there may be as many heads as tokens; else the first axis
/// of that size.
std::optional<std::size_t> axis_of_rows(const io::Entry& entry, std::size_t from,
                                        std::size_t rows) {
  const Shape& shape = entry.shape;
  const std::size_t n = shape.size();
  if (n >= from + 3 && shape[n - 1] == rows && shape[n - 2] == rows && may_be_map(entry))
    return n - 2;
  if (const std::optional<std::size_t> own = axis_of_own_name(entry);
      own && *own >= from && shape[*own] == rows)
    return own;
  for (std::size_t axis = from; axis < n; ++axis)
    if (shape[axis] == rows) return axis;
  return std::nullopt;
}

/// Whether the axis of tokens is a map's, followed by one of keys.
bool is_map_of(const io::Entry& entry, std::size_t tokens, std::size_t rows) {
  return tokens + 2 == entry.shape.size() && entry.shape[tokens + 1] == rows && may_be_map(entry);
}

/// Moves the rows of each batch item to the front of an axis and keeps T of them.
struct MovedRows {
  std::size_t items, axis;
  std::vector<std::size_t> firsts;
  std::size_t rows, T;
};

Tensor moved_rows(const Tensor& tensor, const MovedRows& move) {
  Shape shape = tensor.shape();
  std::size_t outer = 1, inner = size_of(tensor.dtype()), of_item = 1;
  for (std::size_t i = 0; i < move.axis; ++i) outer *= shape[i];
  for (std::size_t i = move.items + 1; i < move.axis; ++i) of_item *= shape[i];
  for (std::size_t i = move.axis + 1; i < shape.size(); ++i) inner *= shape[i];
  shape[move.axis] = move.T;
  Tensor result = Tensor::uninitialised(tensor.dtype(), shape);
  for (std::size_t i = 0; i < outer; ++i) {
    const std::size_t first = move.firsts[i / of_item % move.firsts.size()];
    for (std::size_t t = 0; t < move.T; ++t) // rows after a shorter text are padding
      std::memcpy(result.raw_mutable() + (i * move.T + t) * inner,
                  tensor.raw() + (i * move.rows + (first + t) % move.rows) * inner, inner);
  }
  return result;
}

/// A saved part in the whole shape, among elements that were not saved. place(i) is the place of
/// element i of the part.
template <class F> Tensor among_not_saved(const Tensor& part, const Shape& shape, F place) {
  Tensor whole = Tensor::uninitialised(part.dtype() == DType::f64 ? DType::f64 : DType::f32, shape);
  const auto fill = [&](auto values) {
    using T = typename decltype(values)::value_type;
    for (T& value : values) value = static_cast<T>(not_saved());
    for (std::size_t i = 0; i < part.count(); ++i)
      values[place(i)] = static_cast<T>(value_at(part, i));
  };
  by_precision(whole.dtype(), [&]<class T>(T) { fill(whole.as_mutable<T>()); });
  return whole;
}

/// A shape without axes of one in front.
Shape without_ones(Shape shape) {
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

/// Only the last token of a token stage; in a batch, each text's.
std::optional<PartOfStage> last_token(const Layer& layer, Stage stage, const io::Entry& entry) {
  const StageInfo& info = info_of(stage);
  if (layer.dims.T < 2 || layer.settings.columns || info.kind != Kind::token ||
      info.letters.size() != 2 || comes_before(stage, Stage::concat))
    return std::nullopt;
  const Shape shape = layer.shape_of(stage);
  const std::size_t width = shape.back(), T = layer.dims.T,
                    texts = layer.dims.batched ? layer.dims.B : 1;
  Shape theirs = entry.shape;
  if (theirs.size() == 3 && theirs[1] == 1) theirs.erase(theirs.begin() + 1);
  const bool of_one = texts == 1 && without_ones(theirs) == Shape{width};
  if (!of_one && !(layer.dims.batched && theirs == Shape{texts, width})) return std::nullopt;
  PartOfStage part{entry, texts == 1 ? "the last token alone" : "each text's last token alone"};
  part.entry.shape = shape;
  std::vector<std::size_t> lasts(texts, T - 1);
  for (std::size_t b = 0; b < texts && !layer.lengths.empty(); ++b) lasts[b] = layer.lengths[b] - 1;
  part.entry.read = [read = entry.read, shape, width, T, lasts] {
    return among_not_saved(read(), shape, [&](std::size_t i) {
      return (i / width * T + lasts[i / width]) * width + i % width;
    });
  };
  return part;
}

/// The first columns of logits, of all tokens or of the last one.
std::optional<PartOfStage> fewer_logits(const Layer& layer, Stage stage, const io::Entry& entry) {
  if (stage != Stage::logits || layer.settings.columns || layer.dims.batched || entry.shape.empty())
    return std::nullopt;
  const Shape own = layer.shape_of(stage), theirs = without_ones(entry.shape);
  const std::size_t columns = theirs.back(), all = own.back(), T = own[0];
  const bool last = theirs.size() == 1 && T > 1;
  // A part of the vocabulary may be a rank's share, but fewer than a quarter are not logits.
  if (columns >= all || 4 * columns < all || (theirs.size() == 2 && theirs[0] != T) ||
      theirs.size() > 2)
    return std::nullopt;
  PartOfStage part{entry, fmt::format("{} of the vocabulary's {} columns{}", columns, all,
                                      last ? ", of the last token" : "")};
  part.entry.shape = own;
  part.entry.read = [read = entry.read, own, columns, all, last, T] {
    return among_not_saved(read(), own, [=](std::size_t i) {
      return (last ? T - 1 : i / columns) * all + i % columns;
    });
  };
  return part;
}

/// The distance of a batch item from the layer's own value.
double distance_from(const Tensor& ours, const Tensor& theirs) {
  if (ours.count() != theirs.count()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double difference = value_at(ours, i) - value_at(theirs, i);
    if (std::isfinite(difference)) sum += difference * difference;
  }
  return sum;
}

/// One item of a batch; the others are other texts.
std::optional<PartOfStage> one_item(const Layer& layer, Stage stage, const io::Entry& entry) {
  if (layer.dims.batched || entry.shape.size() < 3 || entry.shape[0] < 2 ||
      !contains(available_stages(layer), stage))
    return std::nullopt;
  const Shape own = layer.shape_of(stage);
  if (Shape(entry.shape.begin() + 1, entry.shape.end()) != own) return std::nullopt;
  const Tensor ours = trace(layer, {stage}).value(stage), all = entry.read();
  std::size_t best = 0;
  double nearest = std::numeric_limits<double>::infinity();
  for (std::size_t item = 0; item < entry.shape[0]; ++item)
    if (const double apart = distance_from(ours, all.at(item)); apart < nearest)
      nearest = apart, best = item;
  PartOfStage part{cut(entry, {{0, best, 1}}),
                   fmt::format("item {} of {}, the nearest to this text", best, entry.shape[0])};
  return part;
}

/// Keys or values of a cache that is larger than the text: the rows after the text are zero.
std::optional<PartOfStage> filled_rows(const Layer& layer, Stage stage, const io::Entry& entry) {
  const StageInfo& info = info_of(stage);
  const std::size_t T = layer.dims.T;
  if (layer.dims.batched || layer.settings.columns || info.kind != Kind::token ||
      info.letters.size() != 3)
    return std::nullopt;
  for (std::size_t axis = 0; axis + 1 < entry.shape.size(); ++axis) {
    const std::size_t rows = entry.shape[axis];
    Shape shape = entry.shape;
    shape[axis] = T;
    if (rows <= T || !fits(layer, stage, shape)) continue;
    const Tensor rest = cut(entry, {{axis, T, rows - T}}).read();
    for (std::size_t i = 0; i < rest.count(); ++i)
      if (value_at(rest, i) != 0) return std::nullopt;
    return PartOfStage{cut(entry, {{axis, 0, T}}),
                       fmt::format("the first {} rows of {}; the others are 0", T, rows)};
  }
  return std::nullopt;
}

} // namespace

io::Entry part_of_text(const io::Entry& entry, const TextPlace& place, std::size_t T) {
  std::vector<Cut> parts;
  std::size_t axis = is_stack(entry) ? 1 : 0;
  if (place.items > 1 && axis < entry.shape.size() && entry.shape[axis] == place.items &&
      entry.shape.size() > axis + 1)
    parts.push_back({axis++, place.item, 1});
  if (place.rows != T && entry.shape.size() > 1) {
    if (const std::optional<std::size_t> rows = axis_of_rows(entry, axis, place.rows)) {
      parts.push_back({*rows, place.first, T});
      if (is_map_of(entry, *rows, place.rows)) parts.push_back({*rows + 1, place.first, T});
    }
  }
  return cut(entry, parts);
}

io::Entry rows_of_texts(const io::Entry& entry, const std::vector<std::size_t>& firsts,
                        std::size_t rows, std::size_t T) {
  const std::size_t items = is_stack(entry) ? 1 : 0, n = entry.shape.size();
  if (n < items + 2 || entry.shape[items] != firsts.size()) return entry;
  const std::optional<std::size_t> tokens = axis_of_rows(entry, items + 1, rows);
  if (!tokens) return entry;
  const bool map = is_map_of(entry, *tokens, rows);
  io::Entry result = entry;
  result.shape[*tokens] = T;
  if (map) result.shape[*tokens + 1] = T;
  result.read = [read = entry.read, items, axis = *tokens, map, firsts, rows, T] {
    Tensor moved = moved_rows(read(), {items, axis, firsts, rows, T});
    return map ? moved_rows(moved, {items, axis + 1, firsts, rows, T}) : moved;
  };
  return result;
}

std::string what_it_may_be(const Layer& layer, Stage stage, const Shape& shape) {
  const Shape own = layer.shape_of(stage), theirs = without_ones(shape);
  if (own.empty() || theirs.empty()) return "";
  if (layer.dims.T > 1 && info_of(stage).kind == Kind::token && own.size() == 2 &&
      theirs == Shape{own.back()})
    return ": it is one token's; save all tokens";
  if (theirs.size() == own.size())
    for (std::size_t axis = 0; axis < own.size(); ++axis) {
      const std::size_t n = theirs[axis];
      Shape rest = theirs;
      rest[axis] = own[axis];
      if (rest != own || n == 0 || own[axis] % n != 0 || own[axis] == n) continue;
      const bool tokens = axis + 2 == own.size() && own.size() == 2;
      return tokens ? ": it is of fewer tokens; save all"
                    : fmt::format(": the share of one rank of {}? Join the ranks' along axis {}",
                                  own[axis] / n, axis);
    }
  return "";
}

std::optional<PartOfStage> part_of_stage(const Layer& layer, Stage stage, const io::Entry& entry) {
  if (std::optional<PartOfStage> part = last_token(layer, stage, entry)) return part;
  if (std::optional<PartOfStage> part = fewer_logits(layer, stage, entry)) return part;
  if (std::optional<PartOfStage> part = filled_rows(layer, stage, entry)) return part;
  return one_item(layer, stage, entry);
}

} // namespace mha
