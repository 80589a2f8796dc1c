// ERNIE 4.5: LLaMA's names; pairs (2i, 2i + 1) rotate.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_ernie(const Group& group) {
  return group.is_model({"ernie4_5", "ernie4_5_moe"});
}

void translate_ernie(const Group&, Translation& to) {
  take_llama(to);
  set_rotary(to, {.style = "interleaved", .base = 500000});
}

} // namespace

const Family ernie{"ernie", "ERNIE 4.5", llama_needs, llama_knows, is_ernie, translate_ernie};

} // namespace mha::naming
