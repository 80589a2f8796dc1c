// DeepSeek's multi-head latent attention: recognised, so that the refusal can say what it is.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate(const Group&, Translation& to) {
  fail("{}: multi-head latent attention (DeepSeek) is not supported; with the model's own q, k and "
       "v "
       "of this layer, start from these: q=FILE k=FILE v=FILE",
       to.source_of("kv_a_proj_with_mqa.weight"));
}

} // namespace

const Family deepseek{
    "deepseek",
    "DeepSeek",
    "kv_a_proj_with_mqa.weight",
    "q_proj.weight q_a_proj.weight q_b_proj.weight kv_b_proj.weight o_proj.weight",
    nullptr,
    translate};

} // namespace mha::naming
