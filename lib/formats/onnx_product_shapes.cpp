// Shapes of products, convolutions and attention.

#include <mha/formats/onnx_shapes.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <map>

namespace mha::io {

MaybeOnnxDims OnnxShapeRules::broadcast(const MaybeOnnxDims& a, const MaybeOnnxDims& b) const {
  if (!a || !b) return std::nullopt;
  OnnxDims result(std::max(a->size(), b->size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a->size() ? (*a)[a->size() - 1 - i] : 1,
                       y = i < b->size() ? (*b)[b->size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      // A table for another length does not fit the short input.
      if (flow_.required_length == 0 && (x == flow_.length || y == flow_.length))
        flow_.required_length = x == flow_.length ? y : x;
      return std::nullopt;
    }
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

MaybeOnnxDims OnnxShapeRules::shape(const OnnxStep& step, std::size_t place) const {
  return flow_.shape(step.input(place));
}

MaybeOnnxDims OnnxShapeRules::integers(const OnnxStep& step, std::size_t place) const {
  const int id = step.input(place);
  if (!flow_.is_fixed(id) || !flow_.shape(id)) return std::nullopt;
  const std::int64_t count = onnx_count(*flow_.shape(id));
  const std::vector<double> numbers = flow_.numbers(id);
  if (count != static_cast<std::int64_t>(numbers.size())) return std::nullopt;
  OnnxDims list;
  for (const double number : numbers) {
    if (std::isnan(number)) return std::nullopt;
    list.push_back(static_cast<std::int64_t>(std::clamp(number, -9e18, 9e18)));
  }
  return list;
}

MaybeOnnxDims OnnxShapeRules::attribute_or_input(const OnnxStep& step, std::string_view attribute,
                                                 std::size_t place) const {
  if (const OnnxAttribute* found = step.find(attribute)) return found->integers;
  return integers(step, place);
}

MaybeOnnxDims OnnxShapeRules::product(const OnnxStep& step) const {
  MaybeOnnxDims a = shape(step, 0), b = shape(step, 1);
  // If the input's shape is unknown, it is assumed to be one text.
  if (!a && b && b->size() == 2) a = OnnxDims{1, flow_.length, (*b)[0]};
  if (!a || !b || a->empty() || b->empty()) return std::nullopt;
  if (step.integer("transA", 0) != 0 && a->size() > 1) std::swap(a->end()[-1], a->end()[-2]);
  if (step.integer("transB", 0) != 0 && b->size() > 1) std::swap(b->end()[-1], b->end()[-2]);
  const bool row = a->size() == 1, column = b->size() == 1;
  if (row) a->insert(a->begin(), 1);
  if (column) b->push_back(1);
  MaybeOnnxDims result =
      broadcast(OnnxDims(a->begin(), a->end() - 2), OnnxDims(b->begin(), b->end() - 2));
  if (!result || a->back() != b->end()[-2]) return std::nullopt;
  if (!row) result->push_back(a->end()[-2]);
  if (!column) result->push_back(b->back());
  return result;
}

/// The output has all heads side by side, each as wide as its values.
MaybeOnnxDims OnnxShapeRules::attention(const OnnxStep& step) const {
  MaybeOnnxDims out = shape(step, 0);
  if (!out) return std::nullopt;
  const MaybeOnnxDims second = shape(step, 1), third = shape(step, 2);
  const bool contrib = step.node->domain == "com.microsoft";
  if (contrib && step.is("Attention") && second && second->size() == 2) {
    const OnnxDims widths = step.integers("qkv_hidden_sizes");
    out->back() = widths.size() == 3 ? widths[2] : (*second)[1] / 3;
  } else if (step.is("GroupQueryAttention")) {
    if (second) return out;
    const std::int64_t heads = step.integer("num_heads", 0),
                       all = heads + 2 * step.integer("kv_num_heads", 0);
    if (heads < 1 || all < heads || out->back() % all != 0) return std::nullopt;
    out->back() = out->back() / all * heads;
  } else if (out->size() == 5) { // B, T, H, 3, D
    *out = {(*out)[0], (*out)[1], (*out)[2] * (*out)[4]};
  } else if (third && third->size() == out->size()) {
    const std::int64_t heads = step.integer("q_num_heads", 1),
                       key_heads = step.integer("kv_num_heads", 1);
    const bool shared = out->size() == 3 && !contrib && key_heads > 0;
    out->back() = third->back() * (shared ? heads : 1) / (shared ? key_heads : 1);
  }
  return out;
}

MaybeOnnxDims OnnxShapeRules::gemm(const OnnxStep& step) const {
  const MaybeOnnxDims a = shape(step, 0), b = shape(step, 1);
  if (!b || b->size() != 2) return std::nullopt;
  const std::int64_t out = (*b)[step.integer("transB", 0) != 0 ? 0 : 1];
  if (!a || a->size() != 2) return OnnxDims{flow_.length, out};
  return OnnxDims{(*a)[step.integer("transA", 0) != 0 ? 1 : 0], out};
}

MaybeOnnxDims OnnxShapeRules::einsum(const OnnxStep& step) const {
  const std::string_view equation = step.text("equation");
  const std::size_t arrow = equation.find("->");
  if (arrow == equation.npos) return std::nullopt;
  std::map<char, std::int64_t> lengths;
  std::size_t at = 0;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const MaybeOnnxDims in = shape(step, i);
    std::size_t axis = 0;
    for (; at < arrow && equation[at] != ','; ++at) {
      if (equation[at] == ' ') continue;
      if (!in || axis >= in->size()) return std::nullopt;
      lengths[equation[at]] = (*in)[axis++];
    }
    ++at;
  }
  OnnxDims result;
  for (const char letter : equation.substr(arrow + 2))
    if (letter != ' ') {
      if (!lengths.contains(letter)) return std::nullopt;
      result.push_back(lengths[letter]);
    }
  return result;
}

MaybeOnnxDims OnnxShapeRules::conv(const OnnxStep& step) const {
  const MaybeOnnxDims in = shape(step, 0), kernel = shape(step, 1);
  if (!in || !kernel || in->size() < 3 || in->size() != kernel->size()) return std::nullopt;
  OnnxDims result{(*in)[0], (*kernel)[0]};
  const OnnxDims pads = step.integers("pads"), strides = step.integers("strides"),
                 dilations = step.integers("dilations");
  const std::size_t spatial = in->size() - 2;
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t pad = pads.size() == 2 * spatial ? pads[i] + pads[i + spatial] : 0,
                       stride = i < strides.size() ? strides[i] : 1,
                       dilation = i < dilations.size() ? dilations[i] : 1;
    // Models do not have larger lengths, which could overflow.
    constexpr std::int64_t most = 1 << 24;
    if (stride < 1 || std::abs(pad) > most || dilation < 1 || dilation > most ||
        (*kernel)[i + 2] > most || (*in)[i + 2] > most)
      return std::nullopt;
    const std::int64_t left = (*in)[i + 2] + pad - dilation * ((*kernel)[i + 2] - 1) - 1;
    if (left < 0) return std::nullopt;
    result.push_back(left / stride + 1);
  }
  return result;
}
} // namespace mha::io
