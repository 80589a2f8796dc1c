// OLMo 1: LLaMA's names; layer normalisations without weights, queries, keys and values clipped.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_olmo(const Group& group) {
  return group.is_model({"olmo"});
}

void translate_olmo(const Group&, Translation& to) {
  take_llama(to);
  set_rotary(to, {.style = "half"});
  to.norm.needs_weight = false;
}

constexpr ModelRecord of_olmo() {
  ModelRecord record = llama_model("olmo");
  record.norm = InputNorm::layer;
  record.eps_keys = "";
  record.eps = 1e-5;
  record.norm_is_bare = true;
  return record;
}
constexpr ModelRecord olmo_record = of_olmo();

} // namespace

const Family olmo{"olmo",      "OLMo",  olmo_record.models, llama_needs,
                  llama_knows, is_olmo, translate_olmo,     &olmo_record};

} // namespace mha::naming
