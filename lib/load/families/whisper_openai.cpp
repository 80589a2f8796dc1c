// Whisper as OpenAI publishes it: attn and cross_attn with query, key, value and out, of which the
// keys have no bias, normalised before attention; the file's dims say the heads.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_whisper_openai(const Group& group) {
  return group.has("query.bias") && !group.has("key.bias") &&
         (group.beside("attn_ln.weight") || group.beside("cross_attn_ln.weight"));
}

void translate_whisper_openai(const Group& group, Translation& to) {
  to.take_projections("query", "key", "value", "out");
  const bool decoder = group.within({"decoder."}), cross = group.within({"cross_attn"});
  to.set_from_config("num_heads", {decoder ? "n_text_head" : "n_audio_head"});
  if (decoder && !cross) to.set("causal", "true");
  if (cross) to.note("cross-attention: X_kv is the encoder's output");
  to.normalises(NormKind::layer, {group.parent() + (cross ? "cross_attn_ln" : "attn_ln")}, {},
                1e-5);
}

} // namespace

const Family whisper_openai{"whisper_openai",
                            "OpenAI's Whisper",
                            "whisper",
                            "query.weight key.weight value.weight out.weight",
                            "query.bias key.bias value.bias out.bias",
                            is_whisper_openai,
                            translate_whisper_openai,
                            nullptr,
                            nullptr,
                            "attn cross_attn attn_ln cross_attn_ln mlp mlp_ln"};

} // namespace mha::naming
