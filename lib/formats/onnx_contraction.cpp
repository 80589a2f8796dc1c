#include <mha/formats/onnx_contraction.hpp>

#include <algorithm>

namespace mha::io {

namespace {

/// The letters of MatMul: A, B … for batch axes, then i, k (summed) and j.
OnnxContraction of_product(const OnnxStep& step, const std::vector<std::int64_t>& a,
                           const std::vector<std::int64_t>& b) {
  OnnxContraction sum;
  const std::size_t batch =
      std::max(a.size() > 2 ? a.size() - 2 : 0, b.size() > 2 ? b.size() - 2 : 0);
  std::string letters;
  for (std::size_t i = 0; i < batch; ++i) letters += static_cast<char>('A' + i);
  const auto axes_of = [&](std::size_t rank, std::string last) {
    if (rank == 1) return std::string(1, 'k');
    return letters.substr(batch - (rank - 2)) + last;
  };
  sum.a_axes = axes_of(a.size(), step.integer("transA", 0) != 0 ? "ki" : "ik");
  sum.b_axes = axes_of(b.size(), step.integer("transB", 0) != 0 ? "jk" : "kj");
  sum.out_axes = letters + (a.size() > 1 ? "i" : "") + (b.size() > 1 ? "j" : "");
  return sum;
}

bool read_equation(std::string_view equation, OnnxContraction& sum) {
  std::string plain;
  for (const char c : equation)
    if (c != ' ') plain += c;
  const std::size_t comma = plain.find(','), arrow = plain.find("->");
  if (comma == plain.npos || arrow == plain.npos || comma > arrow) return false;
  sum.a_axes = plain.substr(0, comma), sum.b_axes = plain.substr(comma + 1, arrow - comma - 1);
  sum.out_axes = plain.substr(arrow + 2);
  const auto is_plain = [](const std::string& axes) {
    std::string sorted = axes;
    std::ranges::sort(sorted);
    return std::ranges::adjacent_find(sorted) == sorted.end() &&
           std::ranges::all_of(
               sorted, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  };
  return is_plain(sum.a_axes) && is_plain(sum.b_axes) && is_plain(sum.out_axes);
}

} // namespace

bool OnnxContraction::repeats(const OnnxDims& shape, const std::string& axes) const {
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (shape[i] != lengths.at(axes[i])) return true;
  return false;
}

std::string OnnxContraction::summed() const {
  std::string letters;
  for (const char letter : a_axes + b_axes)
    if (!has(out_axes, letter) && !has(letters, letter)) letters += letter;
  return letters;
}

std::optional<OnnxContraction> onnx_contraction(const OnnxFlow& flow, const OnnxStep& step) {
  const bool product = step.is("MatMul") || step.is("FusedMatMul") || step.is("Gemm");
  if (!product && !step.is("Einsum")) return std::nullopt;
  if (step.integer("transBatchA", 0) != 0 || step.integer("transBatchB", 0) != 0)
    return std::nullopt;
  if (step.inputs.size() < 2 || step.inputs[0] < 0 || step.inputs[1] < 0) return std::nullopt;
  const auto &a = flow.shape(step.inputs[0]), &b = flow.shape(step.inputs[1]);
  if (!a || !b || a->empty() || b->empty() || a->size() > 20 || b->size() > 20) return std::nullopt;
  OnnxContraction sum;
  if (product)
    sum = of_product(step, *a, *b);
  else if (step.inputs.size() != 2 || !read_equation(step.text("equation"), sum))
    return std::nullopt;
  sum.a = step.inputs[0], sum.b = step.inputs[1];
  if (sum.a_axes.size() != a->size() || sum.b_axes.size() != b->size()) return std::nullopt;
  const auto learn = [&](const std::string& axes, const std::vector<std::int64_t>& shape) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      std::int64_t& length = sum.lengths.try_emplace(axes[i], 1).first->second;
      if (length != 1 && shape[i] != 1 && length != shape[i]) return false;
      if (length == 1) length = shape[i];
    }
    return true;
  };
  if (!learn(sum.a_axes, *a) || !learn(sum.b_axes, *b)) return std::nullopt;
  return sum;
}

std::int64_t onnx_flat(const std::vector<std::int64_t>& shape, const std::string& axes,
                       const OnnxIndex& index) {
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    flat = flat * shape[i] + (shape[i] == 1 ? 0 : index[axes[i]]);
  }
  return flat;
}

OnnxPlaces onnx_places(const OnnxDims& shape, std::int64_t flat) {
  OnnxPlaces places(shape.size(), 0);
  for (std::size_t i = shape.size(); i-- > 0;)
    if (shape[i] > 0) places[i] = flat % shape[i], flat /= shape[i];
  return places;
}

std::int64_t onnx_flat(const OnnxDims& shape, std::span<const std::int64_t> places) {
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < shape.size(); ++i)
    flat = flat * shape[i] + (shape[i] == 1 ? 0 : places[i]);
  return flat;
}

std::int64_t onnx_flat_of_repeated(const OnnxDims& shape, const OnnxDims& out, std::int64_t flat) {
  std::int64_t result = 0, stride = 1;
  for (std::size_t i = shape.size(), at = out.size(); i-- > 0;) {
    const std::int64_t length = out[--at];
    const std::int64_t place = length > 0 ? flat % length : 0;
    if (length > 0) flat /= length;
    if (shape[i] != 1) result += place * stride;
    stride *= shape[i];
  }
  return result;
}

std::int64_t onnx_flat_of_map(const OnnxDims& shape, std::size_t query_axis, std::size_t key_axis,
                              std::array<std::int64_t, 3> place) {
  auto& [head, query, key] = place;
  OnnxPlaces places(shape.size(), 0);
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (i == query_axis || i == key_axis) continue;
    places[i] = head % shape[i], head /= shape[i];
  }
  places[query_axis] = query, places[key_axis] = key;
  return onnx_flat(shape, places);
}

bool is_only_a_product(const OnnxStep& step) {
  return !step.is("Gemm") || step.input(2) < 0 || step.number("beta").value_or(1) == 0;
}

} // namespace mha::io
