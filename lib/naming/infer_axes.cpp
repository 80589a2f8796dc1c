#include <mha/naming/infer_axes.hpp>

#include <mha/layer/names.hpp>
#include <mha/naming/apply_axes.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/parts.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace mha {

namespace {

/// Heads, tokens, width: stages that implementations also keep packed, heads side by side.
bool has_packed_form(Stage stage) {
  return info_of(stage).kind == Kind::token && info_of(stage).letters.size() == 3;
}

/// The axes in the order of the table, batch first.
std::string table_axes(Stage stage) {
  return axes_of_name(name_of(stage));
}

/// The axes of the values that users see: the table's, the last two exchanged in `columns`.
std::string own_axes(const Layer& layer, Stage stage) {
  std::string axes = table_axes(stage);
  if (layer.settings.columns && info_of(stage).kind != Kind::row)
    std::swap(axes.end()[-1], axes.end()[-2]);
  return axes;
}

/// The orders in which implementations keep a stage, its own first. T is the token axis,
/// whether of queries or keys.
std::vector<std::string> orders_of(const Layer& layer, Stage stage) {
  std::vector<std::string> orders{own_axes(layer, stage)};
  const auto add = [&](std::initializer_list<const char*> others) {
    const bool keys = has_packed_form(stage) && table_axes(stage).find('S') != std::string::npos;
    for (std::string order : others) {
      if (keys) std::replace(order.begin(), order.end(), 'T', 'S');
      add_once(orders, order);
    }
  };
  switch (info_of(stage).kind) {
  case Kind::map:
    add({"BHTS", "BTHS", "BTSH", "BHST", "HBTS"});
    break;
  case Kind::row:
    add({"BHT", "BTH", "HBT"});
    break;
  case Kind::head_result:
    add({"BHTC", "BTHC", "TBHC"});
    break;
  case Kind::token:
    if (has_packed_form(stage))
      add({"BHTD", "BTHD", "TBHD", "BTC", "TBC", "BHDT"});
    else if (stage == Stage::concat)
      add({"BTC", "TBC", "BCT", "BTHD", "BHTD"});
    else
      add({"BTC", "TBC", "BCT"});
    break;
  case Kind::derived:
    break;
  }
  return orders;
}

/// The lengths of a stage's axes, by letter.
class Lengths {
public:
  /// `heads`: of the key/value heads, if there are as many as query heads.
  Lengths(const Layer& layer, Stage stage, bool heads_repeated)
      : dims_(layer.dims), stage_(stage), repeated_(heads_repeated) {}

  std::size_t operator()(char letter) const {
    for (Dim own : info_of(stage_).letters) {
      const Axis axis = axis_of(own);
      const std::size_t length = dims_.size_of(own);
      if (letter == 'H' && axis == Axis::kv_head) return repeated_ ? dims_.H : length;
      if ((letter == 'H' && axis == Axis::head) || (letter == 'T' && axis == Axis::query) ||
          (letter == 'S' && axis == Axis::key))
        return length;
      if ((axis == Axis::width || axis == Axis::chosen) && letter == 'C')
        return has_packed_form(stage_) ? length * (*this)('H') : length;
      if (axis == Axis::width && letter == 'D') return stage_ == Stage::concat ? dims_.d_v : length;
    }
    return letter == 'B' ? dims_.B : dims_.H; // concat as heads
  }

private:
  const Dims& dims_;
  Stage stage_;
  bool repeated_;
};

/// Packed widths as heads and the width of one.
std::string unpacked(Stage stage, std::string axes) {
  if (const std::size_t at = axes.find('C');
      at != std::string::npos && (has_packed_form(stage) || stage == Stage::concat))
    axes.replace(at, 1, "HD");
  return axes;
}

/// Axes of length 1 left out: two orders with the same text have the same layout.
std::string significant(Stage stage, const std::string& axes, const Lengths& length) {
  std::string text;
  for (char letter : unpacked(stage, axes))
    if (length(letter) != 1) text += letter;
  return text;
}

/// Whether a shape is these axes: the batch or the heads may be missing where there is one, and row
/// values may have an axis of one at the end.
bool is(const Shape& shape, const std::string& axes, const Lengths& length, bool row) {
  const auto matches = [&](std::span<const std::size_t> sizes) {
    return std::ranges::any_of(std::array{"", "B", "H", "BH"}, [&](std::string_view missing) {
      std::string letters = axes;
      for (const char letter : missing) {
        const std::size_t at = letters.find(letter);
        if (at == std::string::npos || length(letter) != 1) return false;
        letters.erase(at, 1);
      }
      return std::ranges::equal(letters, sizes, {}, length);
    });
  };
  return matches(shape) || (row && !shape.empty() && shape.back() == 1 &&
                            matches(std::span(shape).first(shape.size() - 1)));
}

/// Whether a shape is these axes with the first two as one: (B · H, T, d).
bool is_merged(const Shape& shape, const std::string& axes, const Lengths& length) {
  if (length('B') == 1 || shape.size() + 1 != axes.size()) return false;
  if (shape[0] != length(axes[0]) * length(axes[1])) return false;
  for (std::size_t i = 1; i < shape.size(); ++i)
    if (shape[i] != length(axes[i + 1])) return false;
  return true;
}

/// The orders whose first two axes implementations take for one.
std::vector<std::string> merged_orders(Stage stage) {
  const std::string axes = table_axes(stage);
  if (!axes.starts_with("BH")) return {};
  return {axes, "HB" + axes.substr(2)};
}

struct Match {
  std::string axes;
  bool repeated;
  bool merged = false; ///< the first two axes are one

  std::string text() const {
    return merged ? fmt::format("({}){}", axes.substr(0, 2), axes.substr(2)) : axes;
  }
};

/// Every order that fits, those that come to the same left out.
std::vector<Match> matches_of(const Layer& layer, Stage stage, const Shape& shape) {
  std::vector<Match> matches;
  for (bool repeated : {false, true}) {
    if (repeated &&
        (layer.dims.H == layer.dims.H_kv || !matches.empty() ||
         table_axes(stage).find("HS") == std::string::npos || info_of(stage).kind != Kind::token))
      break;
    const Lengths length(layer, stage, repeated);
    std::vector<std::string> seen;
    for (const std::string& axes : orders_of(layer, stage)) {
      if (!is(shape, axes, length, info_of(stage).kind == Kind::row)) continue;
      std::string text = significant(stage, axes, length);
      if (is_one_of(text, seen)) continue;
      seen.push_back(std::move(text));
      matches.push_back({axes, repeated});
    }
    if (matches.empty())
      for (const std::string& axes : merged_orders(stage))
        if (is_merged(shape, axes, length)) matches.push_back({axes, repeated, true});
  }
  if (!matches.empty() || !is_one_of(std::size_t{1}, shape)) return matches;
  return matches_of(layer, stage, without_ones(shape, shape.size() - 1)); // (T, B, d, 1, 1)
}

/// Whether head i is head first(i), bit for bit. `tensor`: B, H, S, D.
template <class F> bool are_repeated(const Tensor& tensor, F first) {
  const Shape& shape = tensor.shape();
  const std::size_t bytes = shape[2] * shape[3] * size_of(tensor.dtype());
  for (std::size_t b = 0; b < shape[0]; ++b)
    for (std::size_t h = 0; h < shape[1]; ++h)
      if (std::memcmp(tensor.raw() + (b * shape[1] + h) * bytes,
                      tensor.raw() + (b * shape[1] + first(h)) * bytes, bytes) != 0)
        return false;
  return true;
}

/// A stage in the layer's own form.
struct OwnForm {
  Tensor value;
  bool tiled = false; ///< see InferredAxes
};

/// The first of the query heads that share each key/value head, where they are all alike: those of
/// a group, or, where an implementation tiles the heads, every H_kv-th. `tensor`: B, H, S, D.
OwnForm one_of_each_group(const Layer& layer, const Tensor& tensor, const std::string& where) {
  const std::size_t group = layer.dims.group(), heads = layer.dims.H_kv;
  std::size_t step = group;
  if (!are_repeated(tensor, [&](std::size_t h) { return h / group * group; })) {
    if (!are_repeated(tensor, [&](std::size_t h) { return h % heads; }))
      fail("{} has {} key/value heads, the layer has {}, and those that query heads share are not "
           "alike",
           where, layer.dims.H, heads);
    step = 1;
  }
  std::vector<std::size_t> of_groups(heads);
  for (std::size_t h = 0; h < heads; ++h) of_groups[h] = h * step;
  return {at_positions(tensor, 1, of_groups), step != group};
}

/// A tensor whose axes are known, in the layer's own form.
OwnForm in_own_form(const Layer& layer, Stage stage, const Tensor& tensor, const Match& match,
                    const std::string& where) {
  const Lengths length(layer, stage, match.repeated);
  const std::string axes = unpacked(stage, match.axes),
                    to = unpacked(stage, own_axes(layer, stage));
  Shape shape;
  for (char letter : axes) shape.push_back(length(letter));
  Tensor value = tensor.reshaped(shape);
  if (match.repeated) {
    std::string heads_first = "BHSD";
    std::vector<std::size_t> order;
    for (char letter : heads_first) order.push_back(axes.find(letter));
    const auto [heads, tiled] = one_of_each_group(layer, permuted(value, order), where);
    order.clear();
    for (char letter : to) order.push_back(heads_first.find(letter));
    return {permuted(heads, order).reshaped(layer.shape_of(stage)), tiled};
  }
  std::vector<std::size_t> order;
  for (char letter : to) order.push_back(axes.find(letter));
  return {permuted(value, order).reshaped(layer.shape_of(stage))};
}

/// Whether a match after the first is more than its transposition, which every square map has.
bool fits_tokens_first(const Layer& layer, Stage stage, const std::vector<Match>& matches) {
  std::string turned = own_axes(layer, stage);
  std::swap(turned.end()[-1], turned.end()[-2]);
  return std::any_of(matches.begin() + 1, matches.end(),
                     [&](const Match& match) { return match.axes != turned; });
}

std::string choices(const std::vector<Match>& matches) {
  return "@" + joined_texts(matches, " or @", &Match::text);
}

} // namespace

Shape side_by_side(const Layer& layer, Stage stage, Shape shape) {
  const std::size_t experts = experts_side_by_side(layer, stage), rank = shape.size();
  if (experts == 0 || rank < 3 || shape[rank - 2] != experts) return shape;
  const std::size_t width = layer.dims.size_of(info_of(stage).letters.back());
  if (shape[rank - 1] * experts != width) return shape;
  shape.pop_back();
  shape.back() = width;
  return shape;
}

std::vector<InferredAxes> possible_axes(const Layer& layer, Stage stage, const Tensor& as_given,
                                        const std::string& where) {
  const Tensor tensor = as_given.reshaped(side_by_side(layer, stage, as_given.shape()));
  const std::vector<Match> matches = matches_of(layer, stage, tensor.shape());
  const std::string own = own_axes(layer, stage);
  std::string turned = own;
  std::swap(turned.end()[-1], turned.end()[-2]);
  const bool is_map = info_of(stage).kind == Kind::map;
  const bool own_fits = !matches.empty() && matches[0].axes == own && !matches[0].repeated;
  std::vector<InferredAxes> list;
  for (const Match& match : matches) {
    if (own_fits && is_map && match.axes == turned) continue;
    const bool is_own = match.axes == own && !match.repeated && !match.merged;
    auto [value, tiled] = in_own_form(layer, stage, tensor, match, where);
    list.push_back({std::move(value), is_own ? "" : match.text(), match.repeated, false, tiled});
  }
  if (list.empty()) return {infer_axes(layer, stage, tensor, where)}; // throws the message
  list[0].doubtful = list.size() > 1;
  return list;
}

bool fits(const Layer& layer, Stage stage, const Shape& shape) {
  return !matches_of(layer, stage, side_by_side(layer, stage, shape)).empty();
}

InferredAxes infer_axes(const Layer& layer, Stage stage, const Tensor& as_given,
                        const std::string& where) {
  const Tensor tensor = as_given.reshaped(side_by_side(layer, stage, as_given.shape()));
  const std::vector<Match> matches = matches_of(layer, stage, tensor.shape());
  if (matches.empty())
    fail("{} is {}: {} is {} in this layer; give its axes if they are in another order: "
         "<{}=FILE@AXES>",
         where, to_string(tensor.shape()), name_of(stage), to_string(layer.shape_of(stage)),
         name_of(stage));
  const bool own =
      matches[0].axes == own_axes(layer, stage) && !matches[0].repeated && !matches[0].merged;
  if (!own && matches.size() > 1)
    fail("{} is {}, which fits {} in more than one way; choose one: {}", where,
         to_string(tensor.shape()), name_of(stage), choices(matches));
  auto [value, tiled] = in_own_form(layer, stage, tensor, matches[0], where);
  return {std::move(value), own ? "" : matches[0].text(), matches[0].repeated,
          own && fits_tokens_first(layer, stage, matches), tiled};
}

InferredAxes infer_axes(const Layer& layer, Stage stage, const Tensor& tensor,
                        const std::string& axes, std::size_t layer_number,
                        const std::string& where) {
  const std::string table = table_axes(stage);
  const bool packed = has_packed_form(stage) && axes.find('C') != std::string::npos;
  const bool keys = table.find('S') != std::string::npos;
  const std::string name = packed ? (keys ? "K" : "Q") : std::string(name_of(stage));
  const AppliedAxes arranged = apply_axes(name, tensor, axes, layer_number, where);
  const std::string order = packed ? (keys ? "BSC" : "BTC") : table;
  const bool row = info_of(stage).kind == Kind::row;
  for (bool repeated : {false, true}) {
    const Match match{order, repeated};
    if (repeated && (!keys || info_of(stage).kind != Kind::token ||
                     layer.dims.H == layer.dims.H_kv || !has_packed_form(stage)))
      break;
    if (!is(arranged.tensor.shape(), order, Lengths(layer, stage, repeated), row)) continue;
    auto [value, tiled] = in_own_form(layer, stage, arranged.tensor, match, where);
    return {std::move(value), axes, repeated, false, tiled};
  }
  fail("{} is {}, read as {}: {} is {} in this layer", where, to_string(tensor.shape()), axes,
       name_of(stage), to_string(layer.shape_of(stage)));
}

} // namespace mha
