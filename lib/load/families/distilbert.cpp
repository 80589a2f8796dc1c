// DistilBERT: attention.{q,k,v,out}_lin, (out, in), all with biases; normalised after attention.

#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate(const Group&, Translation& to) {
  to.expect_models({"distilbert"});
  to.take_projections("q_lin", "k_lin", "v_lin", "out_lin");
  to.set_from_config("num_heads", {"n_heads", "num_attention_heads"});
  to.normalises_after();
}

} // namespace

const Family distilbert{"distilbert",
                        "DistilBERT",
                        "q_lin.weight k_lin.weight v_lin.weight out_lin.weight",
                        "q_lin.bias k_lin.bias v_lin.bias out_lin.bias",
                        nullptr,
                        translate};

} // namespace mha::naming
