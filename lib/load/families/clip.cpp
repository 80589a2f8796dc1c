// CLIP and SigLIP as Hugging Face has them: BART's names, layer_norm1 before attention; CLIP's text
// tower is causal, SigLIP's is not.

#include <mha/load/families/bart.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_clip(const Group& group) {
  return group.beside("layer_norm1.weight");
}

void translate_clip(const Group& group, Translation& to) {
  take_bart(to);
  const bool siglip =
      group.is_model({"siglip", "siglip2", "siglip_text_model", "siglip_vision_model"});
  if (group.within({"text_model"}) && !siglip) to.set("causal", "true");
  to.normalises(NormKind::layer, {group.parent() + "layer_norm1"}, {"layer_norm_eps"},
                siglip ? 1e-6 : 1e-5);
}

} // namespace

const Family clip{"clip", "CLIP", bart_needs, bart_knows, is_clip, translate_clip};

} // namespace mha::naming
