#include <mha/layer/block.hpp>

#include <array>
#include <utility>

namespace mha {

namespace {

using enum Activation;

// As Transformers and TransformerLens name them.
constexpr std::array<std::pair<std::string_view, Activation>, 18> names{{
    {"relu", relu},
    {"relu2", relu2},
    {"silu", silu},
    {"swish", silu},
    {"gelu", gelu},
    {"gelu_python", gelu},
    {"gelu_new", gelu_tanh},
    {"gelu_tanh", gelu_tanh},
    {"gelu_pytorch_tanh", gelu_tanh},
    {"gelu_fast", gelu_fast},
    {"quick_gelu", gelu_quick},
    {"gelu_quick", gelu_quick},
    {"solu", solu},
    {"solu_ln", solu},
    {"linear", identity},
    {"identity", identity},
    {"none", identity},
    {"null", identity},
}};

} // namespace

std::optional<Activation> activation_named(std::string_view name) {
  for (const auto& [known, activation] : names)
    if (known == name) return activation;
  return std::nullopt;
}

std::string_view activation_names() {
  return "relu, relu2, silu, gelu, gelu_new (gelu_pytorch_tanh), gelu_fast, quick_gelu, solu";
}

std::optional<bool> has_step_around(const TransformerBlock* block, Stage stage) {
  if (!block) return false;
  const Mixture* const mixture = block->mixture.get();
  switch (stage) {
  case Stage::resid_pre:
  case Stage::resid_post:
    return true;
  case Stage::attn_add:
    return block->post_attention_norm.present();
  case Stage::residual:
    return block->shape != BlockShape::parallel && block->shape != BlockShape::attention_only;
  case Stage::mlp_x:
  case Stage::mlp_pre:
  case Stage::mlp_act:
  case Stage::mlp_out:
    return block->has_feed_forward();
  case Stage::mlp_up:
    return mixture ? mixture->gated() : block->mlp.gated();
  case Stage::router_x:
    return mixture && mixture->router_norm.present();
  case Stage::experts_x:
    return mixture && mixture->experts_norm.present();
  case Stage::experts_sum:
  case Stage::experts_norm:
    return mixture && mixture->norm_of_sum.present();
  case Stage::shared_norm:
    return mixture && mixture->shared.present() && mixture->norm_of_shared.present();
  case Stage::router:
  case Stage::router_scores:
  case Stage::experts:
  case Stage::expert_weights:
  case Stage::expert_out:
    return mixture != nullptr;
  case Stage::shared_pre:
  case Stage::shared_act:
  case Stage::shared_out:
    return mixture && mixture->shared.present();
  case Stage::shared_up:
    return mixture && mixture->shared.gated();
  case Stage::shared_gate:
    return mixture && mixture->shared_gate.present();
  case Stage::mlp_add:
    return block->post_mlp_norm.present();
  case Stage::layer_embed:
  case Stage::layer_add:
    return block->supplement.present();
  default:
    return std::nullopt;
  }
}

} // namespace mha
