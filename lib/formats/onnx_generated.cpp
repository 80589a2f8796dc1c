// Elements that operators generate: shapes, ranges, triangles, sums of fixed numbers, rotations.

#include <mha/formats/onnx_elements.hpp>
#include <mha/formats/onnx_shapes.hpp>

#include <algorithm>
#include <cmath>

namespace mha::io {

namespace {

constexpr std::int64_t most_summed = 256; ///< length of a sum of fixed numbers

} // namespace

MaybeOnnxForm OnnxElements::axis_length(const OnnxStep& step, const OnnxValue& /*of*/,
                                        std::int64_t flat, int /*depth*/) const {
  const auto& in = flow_.shape(step.input(0));
  std::int64_t start = step.integer("start", 0);
  if (!in) return std::nullopt;
  if (start < 0) start += static_cast<std::int64_t>(in->size());
  const std::int64_t at = std::max<std::int64_t>(start, 0) + flat;
  if (at >= static_cast<std::int64_t>(in->size())) return std::nullopt;
  return of_number(static_cast<double>((*in)[static_cast<std::size_t>(at)]));
}

MaybeOnnxForm OnnxElements::element_count(const OnnxStep& step, const OnnxValue& /*of*/,
                                          std::int64_t /*flat*/, int /*depth*/) const {
  const auto& in = flow_.shape(step.input(0));
  if (!in) return std::nullopt;
  return of_number(static_cast<double>(onnx_count(*in)));
}

MaybeOnnxForm OnnxElements::filled(const OnnxStep& step, const OnnxValue& /*of*/,
                                   std::int64_t /*flat*/, int /*depth*/) const {
  const OnnxAttribute* value = step.find("value");
  if (!value || !value->tensor) return of_number(0);
  return of_number(scalar(*value->tensor));
}

MaybeOnnxForm OnnxElements::range(const OnnxStep& step, const OnnxValue& /*of*/, std::int64_t flat,
                                  int depth) const {
  const auto start = number(step, 0, 0, depth), delta = number(step, 2, 0, depth);
  if (!start || !delta) return std::nullopt;
  return of_number(*start + static_cast<double>(flat) * *delta);
}

MaybeOnnxForm OnnxElements::triangle(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                     int depth) const {
  if (of.shape->size() < 2) return std::nullopt;
  const OnnxPlaces places = onnx_places(*of.shape, flat);
  const auto k = step.input(1) < 0 ? std::optional(0.0) : number(step, 1, 0, depth);
  if (!k) return std::nullopt;
  if (!flow_.is_fixed(step.input(0))) meet_table(step);
  const auto ahead = static_cast<double>(places.back() - places.end()[-2]);
  const bool kept = step.integer("upper", 1) != 0 ? ahead >= *k : ahead <= *k;
  return kept ? passed(step, 0, flat, depth) : of_number(0);
}

std::optional<double> OnnxElements::scalar(const OnnxTensor& tensor) {
  std::vector<std::byte> bytes(tensor.raw.size());
  DType dtype = DType::f32;
  switch (tensor.type) {
  case 1:
    break;
  case 6:
    dtype = DType::i32;
    break;
  case 7:
    dtype = DType::i64;
    break;
  case 9:
    dtype = DType::boolean;
    break;
  case 10:
    dtype = DType::f16;
    break;
  case 11:
    dtype = DType::f64;
    break;
  default:
    return std::nullopt;
  }
  if (tensor.has_raw && tensor.raw.size() == size_of(dtype)) {
    Tensor element = Tensor::uninitialised(dtype, {});
    std::copy_n(reinterpret_cast<const std::byte*>(tensor.raw.data()), tensor.raw.size(),
                element.raw_mutable());
    return value_at(element, 0);
  }
  if (!tensor.loose.empty()) return static_cast<double>(tensor.loose[0]);
  if (tensor.typed.size() == 1 && dtype == DType::f32 && tensor.typed[0].size() == 4) {
    float value = 0;
    std::copy_n(tensor.typed[0].data(), 4, reinterpret_cast<char*>(&value));
    return static_cast<double>(value);
  }
  if (tensor.typed.size() == 1 && tensor.typed[0].size() == 1)
    return static_cast<double>(static_cast<unsigned char>(tensor.typed[0][0]));
  return std::nullopt;
}

MaybeOnnxForm OnnxElements::running_sum(const OnnxStep& step, const OnnxValue& of,
                                        std::int64_t flat, int depth) const {
  const OnnxDims& out = *of.shape;
  const std::optional<double> given = number(step, 1, 0, depth);
  if (!given || !flow_.is_fixed(step.input(0))) return std::nullopt;
  const std::int64_t axis = onnx_axis(static_cast<std::int64_t>(*given), out.size());
  if (axis < 0) return std::nullopt;
  OnnxPlaces places = onnx_places(out, flat);
  const std::int64_t own = places[static_cast<std::size_t>(axis)];
  const bool from_end = step.integer("reverse", 0) != 0;
  const std::int64_t without_own = step.integer("exclusive", 0) != 0 ? 1 : 0;
  const std::int64_t first = from_end ? own + without_own : 0,
                     last = from_end ? out[static_cast<std::size_t>(axis)] - 1 : own - without_own;
  if (last - first > most_summed) return std::nullopt;
  double sum = 0;
  for (std::int64_t i = first; i <= last; ++i) {
    places[static_cast<std::size_t>(axis)] = i;
    sum += number(step, 0, onnx_flat(out, places), depth).value_or(NAN);
  }
  return of_number(sum);
}

MaybeOnnxForm OnnxElements::fixed_product(const OnnxStep& step, const OnnxValue& of,
                                          std::int64_t flat, int depth) const {
  const OnnxDims& out = *of.shape;
  if (!flow_.is_fixed(step.input(0)) || !flow_.is_fixed(step.input(1))) return std::nullopt;
  const auto sum = onnx_contraction(flow_, step);
  if (!sum || sum->out_axes.size() != out.size()) return std::nullopt;
  const std::string letters = sum->summed();
  if (letters.size() > 1 || (!letters.empty() && sum->lengths.at(letters[0]) > most_summed))
    return std::nullopt;
  OnnxIndex index;
  const OnnxPlaces places = onnx_places(out, flat);
  for (std::size_t i = 0; i < out.size(); ++i) index[sum->out_axes[i]] = places[i];
  double total = 0;
  const std::int64_t length = letters.empty() ? 1 : sum->lengths.at(letters[0]);
  for (std::int64_t i = 0; i < length; ++i) {
    if (!letters.empty()) index[letters[0]] = i;
    total +=
        number(step, 0, onnx_flat(*flow_.shape(sum->a), sum->a_axes, index), depth).value_or(NAN) *
        number(step, 1, onnx_flat(*flow_.shape(sum->b), sum->b_axes, index), depth).value_or(NAN);
  }
  return of_number(total);
}

MaybeOnnxForm OnnxElements::rotary(const OnnxStep& step, const OnnxValue& of, std::int64_t flat,
                                   int depth) const {
  const OnnxDims& out = *of.shape;
  const bool standard = step.node->domain.empty();
  const std::size_t cos_place = standard ? 1 : 2, positions_place = standard ? 3 : 1;
  const auto& cache = flow_.shape(step.input(cos_place));
  if (!cache || cache->empty() || out.size() < 3) return std::nullopt;
  const OnnxPlaces places = onnx_places(out, flat);
  const bool by_head = out.size() == 4; // B, H, T, D; else B, T, H · D
  const std::int64_t heads = step.integer("num_heads", 0), half = cache->back();
  const std::int64_t width = by_head ? out[3] : heads > 0 ? out[2] / heads : half * 2;
  std::int64_t dims = step.integer("rotary_embedding_dim", 0);
  if (dims == 0) dims = std::min(half * 2, width);
  if (width <= 0 || dims <= 0) return std::nullopt;
  const std::int64_t token = places[by_head ? 2 : 1], d = places.back() % width;
  const MaybeOnnxForm own = passed(step, 0, flat, depth);
  if (d >= dims) return own;
  double position = static_cast<double>(token);
  if (step.input(positions_place) >= 0) {
    const auto& shape = flow_.shape(step.inputs[positions_place]);
    const bool one = shape && onnx_count(*shape) == 1;
    const auto given = number(step, positions_place, one ? 0 : token, depth);
    if (!given) return std::nullopt;
    position = one ? *given + position : *given;
  }
  const bool neighbours = step.integer("interleaved", 0) != 0;
  const std::int64_t pair = neighbours ? d / 2 : d % (dims / 2);
  const bool first = neighbours ? d % 2 == 0 : d < dims / 2;
  const std::int64_t other = flat + (first ? 1 : -1) * (neighbours ? 1 : dims / 2);
  meet_table(step);
  const auto angle = static_cast<std::int64_t>(position) * half + pair;
  const auto cosine = number(step, cos_place, angle, depth),
             sine = number(step, cos_place + 1, angle, depth);
  const MaybeOnnxForm paired = passed(step, 0, other, depth);
  if (!cosine || !sine || !own || !paired) return std::nullopt;
  OnnxForm sum = scaled_onnx_form(*own, *cosine);
  add_onnx_form(sum, *paired, first ? -*sine : *sine);
  return sum;
}

} // namespace mha::io
