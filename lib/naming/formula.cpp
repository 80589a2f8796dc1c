#include <mha/naming/formula.hpp>

namespace mha {

namespace {

/// `input` W + b, without what is absent.
std::string projected(const std::string& input, const Tensor& W, const Tensor& b, char letter) {
  std::string formula = input;
  if (!W.empty()) formula += fmt::format(" W_{}", letter);
  if (!b.empty()) formula += fmt::format(" + b_{}", letter);
  return formula;
}

/// What the projections see: X itself is written for x where the two are one and nothing else is in
/// the formula.
std::string seen(const Layer& layer, const Tensor& own, const char* name, const Tensor& W) {
  if (!own.empty()) return name;
  const bool is_X = layer.settings.input_norm == InputNorm::none && !layer.has_given(Stage::x);
  return W.empty() && is_X ? "X" : "x";
}

/// What is clipped when it is projected: all of it but queries and keys that are normalised first.
std::string clipped(const Layer& layer, bool here, std::string formula) {
  return layer.settings.clip_qkv > 0 && here ? fmt::format("clip({})", formula) : formula;
}

} // namespace

std::string formula_of(const Layer& layer, Stage stage) {
  if (layer.has_given(stage)) return "given";
  switch (stage) {
  case Stage::x:
    return layer.settings.input_norm == InputNorm::layer    ? "layer_norm(X)"
           : layer.settings.input_norm == InputNorm::rms    ? "rms_norm(X)"
           : layer.settings.input_norm == InputNorm::affine ? "X · weight + bias"
                                                            : "X";
  case Stage::q: {
    const std::string from =
        layer.W_c_q.empty() ? seen(layer, {}, "", layer.W_q) : std::string("c_q");
    return clipped(layer, layer.q_norm_weight.empty(), projected(from, layer.W_q, layer.b_q, 'q'));
  }
  case Stage::k:
    if (!layer.W_c_kv.empty())
      return clipped(layer, layer.k_norm_weight.empty(), "[c_kv W_k, k_pe]");
    return clipped(layer, layer.k_norm_weight.empty(),
                   projected(seen(layer, layer.X_k, "X_k", layer.W_k), layer.W_k, layer.b_k, 'k'));
  case Stage::v:
    if (!layer.W_c_kv.empty()) return clipped(layer, true, "c_kv W_v");
    return clipped(layer, true,
                   projected(seen(layer, layer.X_v, "X_v", layer.W_v), layer.W_v, layer.b_v, 'v'));
  case Stage::head_result:
    return layer.W_o.empty() ? "head_out in its columns" : "head_out W_o[h]";
  case Stage::output:
    return projected("concat", layer.W_o, layer.b_o, 'o');
  default:
    return std::string(info_of(stage).value);
  }
}

} // namespace mha
