// Keras' and Flax' MultiHeadAttention: query, key, value with kernels (d, H, d_h) and biases (H,
// d_h); attention_output (Keras) or out (Flax) with a kernel (H, d_h, d). Hugging Face's Flax
// checkpoints have kernels of two axes, (in, out).

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate_keras(const Group& group, Translation& to) {
  to.refuse({"query_ln.scale"}, "layer normalisation of queries and keys");
  for (const auto& [letter, name] : {std::pair("q", "query"), {"k", "key"}, {"v", "value"}}) {
    const std::string kernel = fmt::format("{}.kernel", name);
    const Tensor W = to.read(kernel);
    to.put(fmt::format("W_{}", letter), W.rank() == 3 ? permuted(W, {1, 0, 2}) : W, kernel);
    to.take(fmt::format("b_{}", letter), fmt::format("{}.bias", name));
  }
  for (const char* name : {"attention_output", "out"})
    to.take("W_o", fmt::format("{}.kernel", name)), to.take("b_o", fmt::format("{}.bias", name));
  if (group.shape("query.kernel").size() == 2)
    to.set_from_config("num_heads", {"num_attention_heads", "num_heads"});
}

} // namespace

const Family keras{"keras",
                   "Keras and Flax",
                   "",
                   "query.kernel key.kernel value.kernel attention_output.kernel|out.kernel",
                   "query.bias key.bias value.bias attention_output.bias out.bias query_ln.scale",
                   nullptr,
                   translate_keras};

} // namespace mha::naming
