// CLIP and SigLIP as Hugging Face has them: BART's names, layer_norm1 before attention; CLIP's text
// tower is causal, SigLIP's is not.

#include <mha/load/families/bart.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_clip(const Group& group) {
  return group.beside("layer_norm1.weight");
}

constexpr std::string_view clip_models =
    "clip clip_text_model clip_vision_model siglip siglip_text_model siglip_vision_model siglip2 "
    "siglip2_text_model siglip2_vision_model owlvit owlvit_text_model owlvit_vision_model owlv2 "
    "owlv2_text_model owlv2_vision_model idefics3_vision smolvlm_vision";

void translate_clip(const Group& group, Translation& to) {
  take_bart(to);
  const bool siglip = group.is_model({"siglip", "siglip_text_model", "siglip_vision_model",
                                      "siglip2", "siglip2_text_model", "siglip2_vision_model",
                                      "idefics3_vision", "smolvlm_vision"}),
             text = group.within({"text_model"}) ||
                    group.is_model({"clip_text_model", "owlvit_text_model", "owlv2_text_model"});
  if (text && !siglip) to.set("causal", "true");
  to.normalises(NormKind::layer, {group.parent() + "layer_norm1"}, {"layer_norm_eps"},
                siglip ? 1e-6 : 1e-5);
}

} // namespace

const Family clip{
    "clip",  "CLIP",         clip_models, bart_needs, bart_knows,
    is_clip, translate_clip, nullptr,     nullptr,    "layer_norm1 layer_norm2 mlp.fc1 mlp.fc2"};

} // namespace mha::naming
