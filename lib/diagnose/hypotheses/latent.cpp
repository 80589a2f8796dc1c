// The norms of latent attention's compressed rows: left out, or without their weights.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

struct Latent {
  Stage stage;
  const char *name, *norm;
  Tensor Layer::*W, Layer::*bias, Layer::*weight;
};
constexpr Latent latents[]{{Stage::c_q, "compressed queries", "q_a_norm", &Layer::W_c_q,
                            &Layer::b_c_q, &Layer::c_q_norm_weight},
                           {Stage::c_kv, "compressed keys and values", "kv_a_norm", &Layer::W_c_kv,
                            &Layer::b_c_kv, &Layer::c_kv_norm_weight}};

/// x W + b without its norm. The shared part of the key, which has none, is computed like this.
Tensor not_normalised(const Layer& layer, const Latent& latent) {
  Layer plain = layer;
  clear_given(plain, {Stage::k_pe});
  plain.W_k_pe = layer.*latent.W, plain.b_k_pe = layer.*latent.bias;
  plain.dims.d_pe = plain.W_k_pe.shape()[1];
  return value_of(plain, Stage::k_pe);
}

std::vector<Change> latent_changes(const Subject& subject) {
  ChangeList list;
  std::vector<Latent> present;
  for (const Latent& latent : latents)
    if (!(subject.layer.*latent.weight).empty()) present.push_back(latent);
  const auto add = [&](const std::vector<Latent>& which) {
    StageSet touched;
    std::vector<const char*> names, norms;
    for (const Latent& one : which)
      touched.add(one.stage), names.push_back(one.name), norms.push_back(one.norm);
    list.add("latent.norm.missing", touched,
             fmt::format("does not normalise the {}", fmt::join(names, " nor the ")),
             fmt::format("normalise them (RMS) with the weight {} before the next product",
                         fmt::join(norms, ", ")),
             [which](Layer& edited) {
               for (const Latent& one : which)
                 if (!edited.has_given(one.stage))
                   give(edited, one.stage, not_normalised(edited, one));
             });
    list.add("latent.norm.weight", touched,
             fmt::format("normalises the {} without a weight", fmt::join(names, " and the ")),
             fmt::format("multiply the normalised rows by {}", fmt::join(norms, ", ")),
             [which](Layer& edited) {
               for (const Latent& one : which)
                 edited.*one.weight = each_number(edited.*one.weight, [](double) { return 1.0; });
             })
        .rare = true;
  };
  for (const Latent& one : present) add({one});
  if (present.size() > 1) add(present);
  return list.take();
}

} // namespace

const Theme latent_theme{"latent", "latent.norm.missing latent.norm.weight", latent_changes};

} // namespace mha
