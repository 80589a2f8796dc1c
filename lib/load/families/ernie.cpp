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

void settle_ernie(const Group& group, ModelRecord& record) {
  record.mlp_bias = group.is_true({"use_bias"}) ? Bias::always : Bias::never;
}

constexpr ModelRecord of_ernie() {
  ModelRecord record = llama_model("ernie4_5");
  record.eps = 1e-5;
  record.tied = true;
  record.settle = settle_ernie;
  return record;
}
constexpr ModelRecord ernie_record = of_ernie();

} // namespace

const Family ernie{"ernie",     "ERNIE 4.5", "ernie4_5 ernie4_5_moe", llama_needs,
                   llama_knows, is_ernie,    translate_ernie,         &ernie_record};

} // namespace mha::naming
