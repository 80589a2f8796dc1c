// Biases of the projections, forgotten.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

namespace mha {

namespace {

struct Bias {
  char letter;
  Stage stage;
  Tensor Layer::*bias;
};

std::vector<Change> bias_changes(const Subject& subject) {
  std::vector<Change> list;
  for (const Bias& b : {Bias{'q', Stage::q, &Layer::b_q}, Bias{'k', Stage::k, &Layer::b_k},
                        Bias{'v', Stage::v, &Layer::b_v}, Bias{'o', Stage::output, &Layer::b_o}}) {
    if ((subject.layer.*b.bias).empty()) continue;
    Change change;
    change.id = fmt::format("bias.missing.{}", b.letter);
    change.touches = set_of({b.stage});
    change.did = fmt::format("leaves out b_{}", b.letter);
    change.cure = fmt::format("add b_{} after the product with W_{}", b.letter, b.letter);
    change.edit = [bias = b.bias](Layer& edited) { edited.*bias = {}; };
    list.push_back(change);
  }
  return list;
}

} // namespace

const Theme bias_theme{"bias", "bias.missing.q bias.missing.k bias.missing.v bias.missing.o",
                       bias_changes};

} // namespace mha
