// GPT-BigCode (StarCoder 1, SantaCoder): GPT-2's names, but nn.Linear's (out, in). With multi_query
// the rows of c_attn are all queries, one key, one value; without it each head's query, key and
// value.

#include <mha/load/families/gpt2.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_gpt_bigcode(const Group& group) {
  if (group.is_model({"gpt_bigcode"})) return true;
  const Shape s = group.shape("c_attn.weight");
  return !group.configured("model_type") && s.size() == 2 && s[0] > s[1] && s[0] < 3 * s[1];
}

void translate_gpt_bigcode(const Group& group, Translation& to) {
  const Shape s = group.shape("c_attn.weight");
  const bool one_key = s.size() == 2 && to.is_true({"multi_query"}, s[0] != 3 * s[1]);
  to.take_fused("c_attn", one_key ? "qkv" : "per_group"), to.take_output("c_proj");
  finish_gpt2(to);
  if (one_key) to.set("num_kv_heads", "1");
  set_gpt2_scale(to);
  if (group.is_model({"gpt_bigcode"})) return; // nothing is in doubt
  to.warn(message(
      "{} has GPT-2's name and lies (out, in), as its shape {} says: read as GPT-BigCode; <naming> "
      "gpt2 or nanogpt reads it otherwise",
      to.source_of("c_attn.weight"), to_string(s)));
}

constexpr ModelRecord of_gpt_bigcode() {
  ModelRecord record = gpt2_model_with_biases("gpt_bigcode", "gelu_pytorch_tanh");
  record.always = "attn.c_attn.bias attn.c_proj.bias ln_1.bias ln_2.bias";
  return record;
}
constexpr ModelRecord gpt_bigcode_record = of_gpt_bigcode();

} // namespace

const Family gpt_bigcode{
    "gpt_bigcode",  "GPT-BigCode",         gpt_bigcode_record.models, gpt2_needs, gpt2_knows,
    is_gpt_bigcode, translate_gpt_bigcode, &gpt_bigcode_record,       nullptr,    gpt2_beside};

} // namespace mha::naming
