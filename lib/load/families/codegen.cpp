// CodeGen: qkv_proj (out, in) in 4 blocks of rows, as it was trained on 4 devices, each block its
// heads' queries, values and keys, in this order; GPT-J's rotary embedding.

#include <mha/load/families/gptj.hpp>
#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

constexpr std::size_t blocks = 4;

void translate_codegen(const Group& group, Translation& to) {
  const Shape shape = group.shape("qkv_proj.weight");
  if (shape.size() != 2 || shape[0] % (3 * blocks) != 0)
    fail("{} is {}: rows for {} blocks of queries, values and keys expected",
         to.source_of("qkv_proj.weight"), to_string(shape), blocks);
  // (blocks, 3, width, in): one of the three, of every block, transposed.
  const std::size_t width = shape[0] / (3 * blocks), in = shape[1];
  const Tensor parts =
      permuted(to.read("qkv_proj.weight").reshaped({blocks, 3, width, in}), {1, 3, 0, 2});
  std::size_t which = 0;
  for (const char* name : {"W_q", "W_v", "W_k"})
    to.put(name, parts.at(which++).reshaped({in, blocks * width}), "qkv_proj.weight");
  to.take_output("out_proj");
  to.pass_over({"causal_mask"}, "the causal mask's buffer");
  to.set_from_config("num_heads", {"n_head", "num_attention_heads"});
  to.set("causal", "true");
  set_rotary_of_gptj(to);
  to.normalises(NormKind::layer, {group.parent() + "ln_1"}, {"layer_norm_epsilon"}, 1e-5);
}

constexpr ModelRecord codegen_record = gptj_model("codegen");

} // namespace

const Family codegen{"codegen",
                     "CodeGen",
                     codegen_record.models,
                     "qkv_proj.weight out_proj.weight",
                     "out_proj.bias causal_mask",
                     nullptr,
                     translate_codegen,
                     &codegen_record};

} // namespace mha::naming
