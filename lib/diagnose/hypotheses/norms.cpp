#include <mha/diagnose/hypotheses/norms.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

#include <utility>

namespace mha {

namespace {

/// All norms, in the order of the computation.
constexpr NormRow known_norms[]{
    {Stage::x, "the norm before attention"},
    {Stage::q_norm, "the norm of q"},
    {Stage::k_norm, "the norm of k"},
    {Stage::attn_add, "the norm after attention"},
    {Stage::mlp_x, "the norm before the feed-forward"},
    {Stage::router_x, "the norm before the router"},
    {Stage::experts_x, "the norm before the experts"},
    {Stage::experts_norm, "the norm after the experts"},
    {Stage::shared_norm, "the norm after the shared experts"},
    {Stage::mlp_add, "the norm after the feed-forward"},
    {Stage::resid_post, "the norm at the block's end"},
    {Stage::final, "the last norm"},
};

/// The block's norm that computes the stage.
Norm TransformerBlock::*block_norm(Stage makes) {
  switch (makes) {
  case Stage::attn_add:
    return &TransformerBlock::post_attention_norm;
  case Stage::mlp_x:
    return &TransformerBlock::pre_mlp_norm;
  case Stage::mlp_add:
    return &TransformerBlock::post_mlp_norm;
  default:
    return &TransformerBlock::post_block_norm;
  }
}

/// The mixture's norm that computes the stage; null for others.
Norm Mixture::*mixture_norm(Stage makes) {
  switch (makes) {
  case Stage::router_x:
    return &Mixture::router_norm;
  case Stage::experts_x:
    return &Mixture::experts_norm;
  case Stage::experts_norm:
    return &Mixture::norm_of_sum;
  case Stage::shared_norm:
    return &Mixture::norm_of_shared;
  default:
    return nullptr;
  }
}

Tensor LayerTensors::*weight_of_heads(Stage makes) {
  return makes == Stage::q_norm ? &LayerTensors::q_norm_weight : &LayerTensors::k_norm_weight;
}

Norm norm_of_heads(const Layer& layer, Stage makes) {
  const Settings& s = layer.settings;
  Norm norm;
  norm.weight = layer.*weight_of_heads(makes);
  if (norm.weight.empty()) return norm;
  norm.kind = s.qk_norm == QkNorm::rms ? InputNorm::rms : InputNorm::layer;
  norm.eps = s.qk_norm_eps, norm.one_plus = s.qk_norm_one_plus;
  norm.bias = makes == Stage::q_norm ? layer.q_norm_bias : layer.k_norm_bias;
  return norm;
}

void put_norm_of_heads(Layer& layer, Stage makes, const Norm& norm) {
  Tensor& weight = layer.*weight_of_heads(makes);
  if (weight.empty()) fail("another change removed the norm");
  if (!norm.present()) {
    weight = {};
    return;
  }
  if (norm.weight.empty() || !norm.bias.empty()) fail("no such norm of q and k");
  const double more = norm.one_plus ? 1 : 0;
  weight = convert(each_number(norm.weight, [more](double w) { return w + more; }), layer.dtype);
  layer.settings.qk_norm = norm.kind == InputNorm::rms ? QkNorm::rms : QkNorm::layer;
  layer.settings.qk_norm_eps = norm.eps, layer.settings.qk_norm_one_plus = false;
}

} // namespace

Norm attention_norm(const Layer& layer) {
  Norm norm;
  norm.kind = layer.settings.input_norm, norm.eps = layer.settings.input_norm_eps;
  norm.weight = layer.norm_weight, norm.bias = layer.norm_bias;
  return norm;
}

Norm NormRow::of(const Layer& layer) const {
  if (const auto norm = mixture_norm(makes))
    return layer.block && layer.block->mixture ? (*layer.block->mixture).*norm : Norm{};
  switch (makes) {
  case Stage::x:
    return attention_norm(layer);
  case Stage::q_norm:
  case Stage::k_norm:
    return norm_of_heads(layer, makes);
  case Stage::final:
    return layer.ends ? layer.ends->final : Norm{};
  default:
    return layer.block ? (*layer.block).*block_norm(makes) : Norm{};
  }
}

Tensor NormRow::input(const Layer& layer) const {
  switch (makes) {
  case Stage::x:
    return layer.X;
  case Stage::q_norm:
  case Stage::k_norm: {
    const Tensor heads = value_of(layer, inputs_of(layer, makes).front());
    const std::size_t width = of(layer).weight.count();
    if (width == 0) fail("another change removed the norm");
    return heads.reshaped({heads.count() / width, width});
  }
  case Stage::attn_add:
    return value_of(layer, Stage::output);
  case Stage::mlp_x:
    return layer.block->shape == BlockShape::parallel ? layer.X : value_of(layer, Stage::residual);
  case Stage::router_x:
  case Stage::experts_x:
  case Stage::experts_norm:
  case Stage::shared_norm:
  case Stage::mlp_add:
    return value_of(layer, inputs_of(layer, makes).front());
  case Stage::final:
    return layer.ends->stream;
  default:
    return sum_of(value_of(layer, Stage::mlp_x), value_of(layer, Stage::mlp_add));
  }
}

void NormRow::put(Layer& layer, const Norm& norm) const {
  if (const auto own = mixture_norm(makes)) {
    // Without its norm the mixture would read mlp_x.
    const bool reads = makes == Stage::router_x || makes == Stage::experts_x;
    if (reads && !norm.present()) return give_result(layer, input(layer));
    own_mixture(layer).*own = norm;
    return;
  }
  switch (makes) {
  case Stage::x:
    return give(layer, makes, normed(norm, layer.X));
  case Stage::q_norm:
  case Stage::k_norm:
    return put_norm_of_heads(layer, makes, norm);
  case Stage::final: // without a norm, the model's end does not have the stage
    if (!norm.present()) return give(layer, makes, layer.ends->stream);
    own_ends(layer).final = norm;
    return;
  default:
    own_block(layer).*block_norm(makes) = norm;
  }
}

void NormRow::give_result(Layer& layer, const Tensor& rows) const {
  give(layer, makes, rows.reshaped(given_shape(layer, makes)));
}

bool is_multiplier(const Norm& norm) {
  if (norm.kind != InputNorm::affine || !norm.bias.empty() || norm.weight.empty()) return false;
  for (std::size_t i = 1; i < norm.weight.count(); ++i)
    if (value_at(norm.weight, i) != value_at(norm.weight, 0)) return false;
  return true;
}

std::vector<NormRow> norms_of(const Layer& layer, StageSet made) {
  std::vector<NormRow> rows;
  for (const NormRow& row : known_norms) {
    if (!contains(made, row.makes)) continue;
    if (row.makes == Stage::x && layer.X.empty()) continue; // x itself is given
    if (const Norm norm = row.of(layer); norm.present() && !is_multiplier(norm))
      rows.push_back(row);
  }
  return rows;
}

StageSet NormGroup::makes() const {
  StageSet stages;
  for (const NormRow& row : rows) stages.add(row.makes);
  return stages;
}

NormGroup all_norms(const Layer& layer) {
  return {"block_norm", every_norm, norms_of(layer, norms_around())};
}

NormGroup all_norms_and_heads(const Layer& layer) {
  const bool both = norms_of(layer, qk_norm_stages()).size() == 2;
  return {"block_norm", every_norm_and_heads,
          both ? norms_of(layer, norms_around() | qk_norm_stages()) : std::vector<NormRow>{}};
}

NormGroup last_norm(const Layer& layer) {
  return {"last_norm", "the last norm", norms_of(layer, StageSet{Stage::final}), true};
}

namespace {

/// Replaces every norm by f(norm). All are read before the first is changed, because those of q and
/// k share settings.
std::function<void(Layer&)> with_each(const std::vector<NormRow>& rows,
                                      const std::function<Norm(Norm)>& f) {
  return [rows, f](Layer& edited) {
    const Layer own = edited;
    for (const NormRow& row : rows)
      if (const Norm norm = row.of(own); norm.present()) row.put(edited, f(norm));
  };
}

/// Replaces the result of every norm by f(norm, its rows), in the order of the computation.
std::function<void(Layer&)>
with_rows_of_each(const std::vector<NormRow>& rows,
                  const std::function<Tensor(const Norm&, const Tensor&)>& f) {
  return [rows, f](Layer& edited) {
    for (const NormRow& row : rows)
      if (const Norm norm = row.of(edited); norm.present())
        row.give_result(edited, f(norm, row.input(edited)));
  };
}

} // namespace

Change missing(const NormGroup& group) {
  return {group.id + ".missing", group.makes(), fmt::format("leaves out {}", group.name),
          fmt::format("apply {}", group.name),
          with_each(group.rows, [](const Norm&) { return Norm{}; })};
}

Change twice(const NormGroup& group) {
  return {group.id + ".twice", group.makes(), fmt::format("applies {} twice", group.name),
          fmt::format("apply {} once", group.name),
          with_rows_of_each(group.rows, [](const Norm& norm, const Tensor& rows) {
            return normed(norm, normed(norm, rows));
          })};
}

Change formed(const NormGroup& group, const OtherNorm& other) {
  return {group.id + "." + (group.one_id ? "form" : other.id), group.makes(),
          with_name(other.did, group.name), with_name(other.cure, group.name),
          other.form ? with_each(group.rows, other.form)
                     : with_rows_of_each(group.rows, other.rows)};
}

} // namespace mha
