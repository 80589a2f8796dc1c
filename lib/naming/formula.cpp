#include <mha/naming/formula.hpp>

#include <mha/layer/graph.hpp>

namespace mha {

namespace {

/// `input` W + b, without what is absent; W `input` where tokens are columns.
std::string projected(const Layer& layer, const std::string& input, const Tensor& W,
                      const Tensor& b, std::string_view letter) {
  std::string formula = input;
  if (!W.empty())
    formula = layer.settings.columns ? fmt::format("W_{} {}", letter, input)
                                     : fmt::format("{} W_{}", input, letter);
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

/// `x` W + b of a mixture, without what is absent.
std::string mapped(std::string_view x, const LinearMap& map, std::string_view name) {
  return fmt::format("{} W_{}{}", x, name, map.b.empty() ? "" : fmt::format(" + b_{}", name));
}

/// The scores of a router.
std::string scored(const Routing& routing) {
  const std::string x = routing.softcap > 0 ? "cap(router)" : "router";
  switch (routing.score) {
  case RouterScore::softmax:
    return fmt::format("softmax({})", x);
  case RouterScore::sigmoid:
    return fmt::format("σ({})", x);
  case RouterScore::sqrt_softplus:
    return fmt::format("√log(1 + e^{})", x);
  case RouterScore::logits:
    return x;
  }
  return "";
}

/// The choice of n experts.
std::string chosen(const Layer& layer, const Routing& routing) {
  const std::string_view bias = routing.bias.empty() ? "" : " + router_bias";
  const std::string groups =
      routing.kept_groups < routing.groups
          ? fmt::format(", of {} of {} groups", routing.kept_groups, routing.groups)
          : "";
  return fmt::format("the {} best of router_scores{}{}", layer.dims.n, bias, groups);
}

/// The weights of the chosen experts.
std::string weighed(const Routing& routing) {
  const std::string_view of = routing.weight == ExpertWeight::as_is ? "router_scores of experts"
                              : routing.weight == ExpertWeight::renormalised
                                  ? "router_scores of experts / their sum"
                                  : "softmax(router_scores of experts)";
  return fmt::format("{}{}{}", of, routing.factor == 1 ? "" : fmt::format(" · {}", routing.factor),
                     routing.factors.empty() ? "" : " · expert_factors");
}

/// act(gate) · up of a mixture's experts.
std::string expert_act(const Mixture& mixture) {
  const std::string_view up = !mixture.gated()           ? ""
                              : mixture.form.up_plus_one ? " · (mlp_up + 1)"
                                                         : " · mlp_up";
  return fmt::format(
      "act(mlp_pre){}{}", up,
      mixture.form.clamp.present() ? fmt::format(", within {}", mixture.form.clamp.limit) : "");
}

/// The formula of a step of a mixture; "": the table's.
std::string of_mixture(const Layer& layer, const Mixture& mixture, Stage stage) {
  const FeedForward& shared = mixture.shared;
  const auto x_of = [&](Stage of) { return std::string(name_of(inputs_of(layer, of).front())); };
  const std::string x = (mixture.routing.weighs_input ? "weight · " : "") + x_of(Stage::mlp_pre);
  const std::string_view sum =
      mixture.routing.weighs_input ? "Σ expert_out" : "Σ weight · expert_out";
  switch (stage) {
  case Stage::router:
    return mapped(x_of(stage), mixture.router, "router");
  case Stage::router_x:
  case Stage::experts_x:
    return fmt::format("norm({})", x_of(stage));
  case Stage::experts_sum:
    return std::string(sum);
  case Stage::router_scores:
    return scored(mixture.routing);
  case Stage::experts:
    return chosen(layer, mixture.routing);
  case Stage::expert_weights:
    return weighed(mixture.routing);
  case Stage::mlp_pre:
    return mapped(x, mixture.in[0], "in");
  case Stage::mlp_up:
    return mapped(x, mixture.up[0], "up");
  case Stage::mlp_act:
    return expert_act(mixture);
  case Stage::expert_out:
    return mapped("mlp_act", mixture.out[0], "out");
  case Stage::shared_pre:
    return mapped("mlp_x", shared.in, "in");
  case Stage::shared_up:
    return mapped("mlp_x", shared.up, "up");
  case Stage::shared_act:
    return shared.gated() ? "act(shared_pre) · shared_up" : "act(shared_pre)";
  case Stage::shared_out:
    return mapped("shared_act", shared.out, "out");
  case Stage::mlp_out:
    return fmt::format("{}{}{}{}", mixture.norm_of_sum.present() ? "experts_norm" : sum,
                       shared.present() ? " + " : "",
                       mixture.shared_gate.present() ? "shared_gate · " : "",
                       !shared.present()                     ? ""
                       : has_step(layer, Stage::shared_norm) ? "shared_norm"
                                                             : "shared_out");
  default:
    return "";
  }
}

/// "gated W_o[h]": of the step that W_o multiplies.
std::string result_of_head(const Layer& layer) {
  const std::string_view z = name_of(last_of_heads(layer));
  const bool columns = layer.settings.columns;
  if (layer.W_o.empty()) return fmt::format("{} in its {}", z, columns ? "rows" : "columns");
  return columns ? fmt::format("W_o[h] {}", z) : fmt::format("{} W_o[h]", z);
}

/// "head_out · σ(gate)".
std::string gated_results(const Layer& layer) {
  const std::string_view z = name_of(inputs_of(layer, Stage::gated).front());
  switch (layer.settings.gate_activation) {
  case GateActivation::sigmoid:
    return fmt::format("{} · σ(gate)", z);
  case GateActivation::softplus:
    return fmt::format("{} · log(1 + exp gate)", z);
  case GateActivation::silu:
    return fmt::format("{} · gate σ(gate)", z);
  }
  return std::string(z);
}

/// The formulas that are others where tokens are columns.
constexpr std::pair<Stage, std::string_view> of_columns[]{
    {Stage::c_q, "norm(W_q_a x)"},
    {Stage::c_kv, "norm(W_kv_a x)"},
    {Stage::k_pe, "W_kv_a x"},
    {Stage::q, "W_q x + b_q"},
    {Stage::k, "W_k X_k + b_k"},
    {Stage::v, "W_v X_v + b_v"},
    {Stage::gate, "W_gate x + b_gate"},
    {Stage::scores, "kᵀ q"},
    {Stage::head_out, "v weights"},
    {Stage::head_result, "W_o[h] head_out"},
    {Stage::concat, "heads below each other"},
    {Stage::output, "W_o concat + b_o"},
};

} // namespace

std::string_view general_formula(Stage stage, bool columns) {
  if (columns)
    for (const auto& [of, formula] : of_columns)
      if (of == stage) return formula;
  return info_of(stage).value;
}

std::string formula_of(const Layer& layer, Stage stage) {
  if (layer.has_given(stage)) return "given";
  if (layer.block && layer.block->mixture && !layer.settings.columns)
    if (std::string formula = of_mixture(layer, *layer.block->mixture, stage); !formula.empty())
      return formula;
  switch (stage) {
  case Stage::x:
    return layer.settings.input_norm == InputNorm::layer    ? "layer_norm(X)"
           : layer.settings.input_norm == InputNorm::rms    ? "rms_norm(X)"
           : layer.settings.input_norm == InputNorm::affine ? "X · weight + bias"
                                                            : "X";
  case Stage::q: {
    const std::string from =
        layer.W_c_q.empty() ? seen(layer, {}, "", layer.W_q) : std::string("c_q");
    return clipped(layer, layer.q_norm_weight.empty(),
                   projected(layer, from, layer.W_q, layer.b_q, "q"));
  }
  case Stage::k:
    if (!layer.W_c_kv.empty())
      return clipped(layer, layer.k_norm_weight.empty(),
                     layer.settings.columns ? "[W_k c_kv; k_pe]" : "[c_kv W_k, k_pe]");
    return clipped(
        layer, layer.k_norm_weight.empty(),
        projected(layer, seen(layer, layer.X_k, "X_k", layer.W_k), layer.W_k, layer.b_k, "k"));
  case Stage::v:
    if (!layer.W_c_kv.empty())
      return clipped(layer, true, layer.settings.columns ? "W_v c_kv" : "c_kv W_v");
    return clipped(
        layer, true,
        projected(layer, seen(layer, layer.X_v, "X_v", layer.W_v), layer.W_v, layer.b_v, "v"));
  case Stage::gate:
    return projected(layer, seen(layer, {}, "", layer.W_gate), layer.W_gate, layer.b_gate, "gate");
  case Stage::gated:
    return gated_results(layer);
  case Stage::scaled:
    return layer.settings.temperature == 0 ? "scores · scale" : "scores · scale · temperature";
  case Stage::head_result:
    return result_of_head(layer);
  case Stage::output:
    return projected(layer, "concat", layer.W_o, layer.b_o, "o");
  default:
    return std::string(general_formula(stage, layer.settings.columns));
  }
}

} // namespace mha
