#include <mha/naming/apply_axes.hpp>

#include <mha/layer/names.hpp>
#include <mha/layer/stage.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <array>

namespace mha {

namespace {

/// The axes that are meant for this name: "" is the table's order with L in front of
/// maps of five axes; T and S are one where the name has one token axis; D is O or I for weights, C
/// is O.
std::string understood(const std::string& name, std::string_view axes, const Shape& shape) {
  const std::string table = axes_of_name(name);
  if (axes.empty()) return table == "BHTS" && shape.size() == 5 && find_stage(name) ? "LBHTS" : "";
  std::string letters(axes);
  const auto has = [&](char letter) { return table.find(letter) != std::string::npos; };
  for (char& letter : letters) {
    if (letter == 'T' && !has('T') && has('S')) letter = 'S';
    if (letter == 'S' && !has('S') && has('T')) letter = 'T';
    if (letter == 'D' && !has('D') && has('O')) letter = name == "W_o" ? 'I' : 'O';
    if (letter == 'C' && !has('C') && has('O')) letter = 'O';
  }
  return letters;
}

bool is_broadcast(const std::string& name) {
  return name == "mask" || name == "block_mask" || name == "bias";
}

/// The most axes of a tensor of this name that is written without its axes; 0: any.
std::size_t most_axes_of(const std::string& name, const Shape& shape) {
  if (const TensorInfo* info = find_tensor_name(name)) {
    if (is_one_of(info->role, std::array{TensorRole::mask, TensorRole::bias, TensorRole::packed}))
      return 4; // Q of four axes is per head
    const std::size_t first = info->forms.front().size();
    const bool is_row = shape.size() == 2 && (shape[0] == 1 || shape[1] == 1);
    if (first == 1 && is_row) return 1; // (n, 1): as a column vector is saved
    // (out, in, 1, 1) is a convolution's, whose order is another: its axes are asked for.
    if (info->role == TensorRole::weight && first > 1) return 0;
    return std::ranges::max(info->forms, {}, &TensorForm::size).size() + info->has_batch();
  }
  const std::optional<Stage> stage = find_stage(name);
  if (!stage) return 0;
  const bool has_layers = info_of(*stage).kind == Kind::map;
  return info_of(*stage).letters.size() + (has_layers ? 2 : 1);
}

/// The part of one layer along the axis L, whose letter goes.
Tensor layer_of(const Tensor& tensor, std::string& letters, std::size_t layer,
                const std::string& where) {
  const std::size_t at = letters.find('L');
  if (layer >= tensor.shape()[at])
    fail("{}: there is no layer {}: the L axis has {}", where, layer, tensor.shape()[at]);
  std::vector<std::size_t> order{at};
  for (std::size_t i = 0; i < letters.size(); ++i)
    if (i != at) order.push_back(i);
  letters.erase(at, 1);
  return (at == 0 ? tensor : permuted(tensor, order)).at(layer);
}

/// Where the axes of an order are among a tensor's letters, and the shape in that order. Throws
/// Error for an axis that is needed.
std::pair<std::vector<std::size_t>, Shape> in_order(const Shape& sizes, const std::string& letters,
                                                    const std::string& order, bool broadcasts,
                                                    const std::string& what) {
  std::vector<std::size_t> positions;
  Shape shape;
  for (char letter : order) {
    const std::size_t at = letters.find(letter);
    if (at != std::string::npos) {
      positions.push_back(at);
      shape.push_back(sizes[at]);
    } else if (broadcasts && !shape.empty()) {
      shape.push_back(1); // an axis that a mask does not have, after one that it has
    } else if (letter != 'B' && letter != 'H' && !broadcasts) {
      fail("{} needs an axis {}; its axes are {}", what, letter, order);
    } else if (letter == 'H' && order == "BHTS") {
      shape.push_back(1); // one head's map, as `dump -o 'w{head}.npy'` writes it
    }
  }
  return {positions, shape};
}

/// The fewest axes of such a tensor: (T, d, 1, 1) has T tokens, not T texts.
std::size_t least_axes_of(const std::string& name, std::string_view axes) {
  const TensorInfo* info = find_tensor_name(name);
  if (!axes.empty() || !info || !info->has_batch()) return axes.size();
  return info->forms.front().size();
}

} // namespace

Shape without_ones(Shape shape, std::size_t most, std::size_t least) {
  while (shape.size() > least && least > 0 && shape.size() > 1 && shape.back() == 1)
    shape.pop_back();
  while (shape.size() > most) {
    const auto last = std::ranges::find(shape.rbegin(), shape.rend(), std::size_t{1});
    if (last == shape.rend()) break;
    // Those at the end go first: (S, B, E, 1, 1) of one item keeps its B.
    const bool leads = shape.back() != 1 && shape[0] == 1;
    shape.erase(leads ? shape.begin() : std::prev(last.base()));
  }
  return shape;
}

std::size_t layers_of(const std::string& name, const Shape& shape, std::string_view axes) {
  const std::string letters = understood(name, axes, shape);
  const std::size_t at = letters.find('L');
  return at == std::string::npos || at >= shape.size() ? 0 : shape[at];
}

AppliedAxes apply_axes(const std::string& name, const Tensor& given, std::string_view axes,
                       std::size_t layer, const std::string& where) {
  const std::size_t most = axes.empty() ? most_axes_of(name, given.shape()) : axes.size();
  const Tensor tensor =
      most > 0 && given.rank() > most
          ? given.reshaped(without_ones(given.shape(), most, least_axes_of(name, axes)))
          : given;
  std::string letters = understood(name, axes, tensor.shape());
  if (letters.empty()) {
    // Q, K and V of four axes are per head, as in ONNX.
    const bool per_head = (name == "Q" || name == "K" || name == "V") && tensor.rank() == 4;
    return {per_head ? std::string(1, ascii_lower(name[0])) : name, tensor};
  }
  if (letters.size() != tensor.rank())
    fail("{}: @{} names {} axes, the array has {}: {}", where, axes.empty() ? letters : axes,
         letters.size(), tensor.rank(), to_string(tensor.shape()));
  std::string target_name = name, table = axes_of_name(name);
  if (table.empty())
    fail("{}: @{}: '{}' is not a tensor of a layer; <stages page> lists them", where, axes, name);
  const auto has = [](const std::string& list, char letter) {
    return list.find(letter) != std::string::npos;
  };

  Tensor current = tensor;
  if (letters.find('L') != std::string::npos) current = layer_of(tensor, letters, layer, where);
  // q, k and v with all widths in one axis are Q, K and V.
  if ((name == "q" || name == "k" || name == "v") && has(letters, 'C') && !has(letters, 'H')) {
    target_name = std::string(1, ascii_upper(name[0]));
    table = axes_of_name(target_name);
    letters = understood(target_name, letters, current.shape());
  }
  // All widths may come as heads and the width of one.
  std::string order = table;
  const bool merges = has(table, 'C') && !has(table, 'H') && has(letters, 'H') && has(letters, 'D');
  if (merges) order.replace(order.find('C'), 1, "HD");

  for (char letter : letters)
    if (!has(order, letter))
      fail("{}: @{}: {} has no axis {}; its axes are {}", where, axes, target_name, letter, order);
  const auto [positions, ordered] = in_order(current.shape(), letters, order, is_broadcast(name),
                                             fmt::format("{}: @{}: {}", where, axes, target_name));
  Shape shape = ordered;
  if (!std::is_sorted(positions.begin(), positions.end())) current = permuted(current, positions);
  if (merges) {
    const std::size_t width = shape.back();
    shape.pop_back();
    shape.back() *= width;
  }
  return {target_name, current.reshaped(shape)};
}

} // namespace mha
