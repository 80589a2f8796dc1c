// BERT, RoBERTa and their relatives: attention.self.{query,key,value}, attention.output.dense,
// (out, in), all with biases. The normalisation comes after attention.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate(const Group& group, Translation& to) {
  to.expect_models({"bert", "roberta", "xlm-roberta", "camembert", "electra", "data2vec-text",
                    "xlm-roberta-xl"});
  to.refuse({"self.distance_embedding.weight", "self.relative_position_bias_table"},
            "a learned relative position");
  to.take_projections("self.query", "self.key", "self.value", "output.dense");
  to.set_from_config("num_heads", {"num_attention_heads"});
  const bool cross = group.within({"crossattention"});
  if (to.is_true({"is_decoder"}) && !cross) to.set("causal", "true", "config.json");
  if (cross) to.note("cross-attention: X_kv is the encoder's output");
  to.normalises_after();
}

} // namespace

const Family bert{"bert",
                  "BERT",
                  "self.query.weight self.key.weight self.value.weight output.dense.weight",
                  "self.query.bias self.key.bias self.value.bias output.dense.bias "
                  "self.distance_embedding.weight self.relative_position_bias_table",
                  nullptr,
                  translate};

} // namespace mha::naming
