// DistilBERT: attention.{q,k,v,out}_lin, (out, in), all with biases; normalised after attention.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate_distilbert(const Group&, Translation& to) {
  to.take_projections("q_lin", "k_lin", "v_lin", "out_lin");
  to.set_from_config("num_heads", {"n_heads", "num_attention_heads"});
  to.set_post_norm();
}

constexpr ModelRecord distilbert_record{
    .models = "distilbert",
    .layers = "transformer.layer",
    .always = "attention.q_lin.bias attention.k_lin.bias attention.v_lin.bias "
              "attention.out_lin.bias sa_layer_norm.bias output_layer_norm.bias",
    .beside = "embeddings.position_ids pre_classifier classifier qa_outputs",
    .tokens = "embeddings.word_embeddings",
    .positions = "embeddings.position_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .shape = BlockShape::post,
    .eps = 1e-12,
    .norm_bias = Bias::always,
    .pre_mlp_norm = "sa_layer_norm",
    .post_block_norm = "output_layer_norm",
    .mlp_in = "ffn.lin1",
    .mlp_out = "ffn.lin2",
    .mlp_bias = Bias::always,
    .activation_keys = "activation",
    .activation = "gelu",
    .attention_returns = Stage::output,
    .head = "vocab_projector",
    .tied = true,
    .head_dense = "vocab_transform",
    .head_norm = "vocab_layer_norm",
    .head_bias = "vocab_projector.bias",
    .causal = false,
};

} // namespace

const Family distilbert{"distilbert",
                        "DistilBERT",
                        distilbert_record.models,
                        "q_lin.weight k_lin.weight v_lin.weight out_lin.weight",
                        "q_lin.bias k_lin.bias v_lin.bias out_lin.bias",
                        nullptr,
                        translate_distilbert,
                        &distilbert_record};

} // namespace mha::naming
