// nanoGPT and minGPT: GPT-2's names with nn.Linear's (out, in).

#include <mha/load/families/gpt2.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_nanogpt(const Group& group) {
  const Shape s = group.shape("c_attn.weight");
  return s.size() == 2 && s[0] == 3 * s[1] && !group.is_model({"gpt_bigcode"});
}

void translate_nanogpt(const Group& group, Translation& to) {
  group.flag({"bias"}); // the tensors say it
  to.take_fused("c_attn", "qkv"), to.take_output("c_proj");
  to.note_square("W_o", "c_proj.weight", "(out, in)", "IO", "gpt2");
  finish_gpt2(to);
}

constexpr ModelRecord nanogpt_record = gpt2_model("gpt2 nanogpt"); // with the exact gelu

} // namespace

const Family nanogpt{"nanogpt",  "nanoGPT",         gpt2_needs,     gpt2_knows,
                     is_nanogpt, translate_nanogpt, &nanogpt_record};

} // namespace mha::naming
