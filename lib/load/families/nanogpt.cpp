// nanoGPT and minGPT: GPT-2's names with nn.Linear's (out, in). A head of its own is minGPT's.

#include <mha/load/families/gpt2.hpp>
#include <mha/load/families/namings.hpp>

#include <algorithm>

namespace mha::naming {

namespace {

bool is_nanogpt(const Group& group) {
  const Shape s = group.shape("c_attn.weight");
  return s.size() == 2 && s[0] == 3 * s[1] && !group.is_model({"gpt_bigcode"});
}

/// A head that is not the embedding: nanoGPT ties the two, minGPT does not.
bool has_own_head(const Group& group) {
  const io::Entry* tokens = group.elsewhere(group.parent(3) + "wte.weight");
  const io::Entry* head = nullptr;
  for (std::size_t levels = 3; !head; ++levels) {
    const std::string above = group.parent(levels);
    head = group.elsewhere(above + "lm_head.weight");
    if (above.empty()) break;
  }
  if (!tokens || !head) return false;
  if (tokens->shape != head->shape || tokens->dtype != head->dtype) return true;
  const Tensor a = tokens->read(), b = head->read();
  return a.raw() != b.raw() && !std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

void translate_nanogpt(const Group& group, Translation& to) {
  group.flag({"bias"}); // the tensors say it
  to.take_fused("c_attn", "qkv"), to.take_output("c_proj");
  to.note_square("W_o", "c_proj.weight", "(out, in)", "IO", "gpt2");
  finish_gpt2(to);
  if (group.number() == 0 && !group.configured("tie_word_embeddings") && has_own_head(group))
    to.note("lm_head.weight is not the embedding: minGPT, whose activation is gelu_new");
}

/// nanoGPT's activation is the exact gelu, minGPT's gelu_new.
void settle_nanogpt(const Group& group, ModelRecord& record) {
  if (group.says("tie_word_embeddings") || !has_own_head(group)) return;
  record.tied = false;
  record.activation = "gelu_new";
}

constexpr ModelRecord of_nanogpt() {
  ModelRecord record = gpt2_model("gpt2 nanogpt");
  record.settle = settle_nanogpt;
  return record;
}
constexpr ModelRecord nanogpt_record = of_nanogpt();

} // namespace

const Family nanogpt{"nanogpt",  "nanoGPT",         "gpt2 nanogpt",  gpt2_needs, gpt2_knows,
                     is_nanogpt, translate_nanogpt, &nanogpt_record, nullptr,    gpt2_beside};

} // namespace mha::naming
