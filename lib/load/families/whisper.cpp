// Whisper: BART's names; the keys have no bias; normalised before attention.

#include <mha/load/families/bart.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_whisper(const Group& group) {
  if (group.configured("model_type")) return group.is_model({"whisper"});
  return group.has("q_proj.bias") && !group.has("k_proj.bias");
}

void translate_whisper(const Group&, Translation& to) {
  take_bart(to);
  set_bart_pre_norm(to);
}

} // namespace

const Family whisper{"whisper",  "Whisper",         "whisper", bart_needs, bart_knows,
                     is_whisper, translate_whisper, nullptr,   nullptr,    bart_beside};

} // namespace mha::naming
