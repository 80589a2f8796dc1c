// One mistake in several projections, and other terms added to the output.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <utility>

namespace mha {

namespace {

struct BiasedProjection {
  Stage stage;
  Tensor Layer::*W, Layer::*bias;
};
constexpr BiasedProjection projections[]{{Stage::q, &Layer::W_q, &Layer::b_q},
                                         {Stage::k, &Layer::W_k, &Layer::b_k},
                                         {Stage::v, &Layer::W_v, &Layer::b_v},
                                         {Stage::output, &Layer::W_o, &Layer::b_o}};

StageSet stages_of(const BiasedProjection& part) {
  StageSet set = StageSet{part.stage};
  if (part.stage == Stage::output) set.add(Stage::head_result);
  return set;
}

void add_biases(const Layer& layer, ChangeList& list) {
  for (const std::size_t first : {std::size_t{4}, std::size_t{3}, std::size_t{2}}) {
    StageSet touched;
    std::size_t count = 0;
    for (std::size_t i = 0; i < first; ++i)
      if (!(layer.*projections[i].bias).empty()) ++count, touched |= stages_of(projections[i]);
    if (count < 2 || (first == 4 && layer.b_o.empty()) || (first == 3 && layer.b_v.empty()))
      continue;
    list.add("bias.missing", touched,
             first == 4   ? "leaves out all biases"
             : first == 3 ? "leaves out the biases of q, k and v"
                          : "leaves out the biases of q and k",
             "add each projection's bias after its product",
             [first](Layer& edited) {
               for (std::size_t i = 0; i < first; ++i) edited.*projections[i].bias = {};
             })
        .rare = first == 2;
  }
}

bool can_turn(const Tensor& W) {
  return !W.empty() && W.shape()[0] > 1 && W.shape()[1] > 1;
}

void add_transposed(const Layer& layer, ChangeList& list) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{3}, std::size_t{2}}) {
    StageSet touched;
    bool all = true;
    for (std::size_t i = 0; i < count; ++i)
      all = all && can_turn(layer.*projections[i].W), touched |= stages_of(projections[i]);
    if (!all) continue;
    list.add("weight.transposed", touched,
             count == 4   ? "reads all four weights transposed"
             : count == 3 ? "reads W_q, W_k and W_v transposed"
                          : "reads W_q and W_k transposed",
             "transpose the weights: they are (in, out), applied as x W",
             [count](Layer& edited) {
               for (std::size_t i = 0; i < count; ++i)
                 edited.*projections[i].W = read_transposed(edited.*projections[i].W);
             })
        .rare = true;
  }
}

/// Other terms added in place of X, or in addition.
void add_residuals(const Layer& layer, ChangeList& list) {
  if (layer.X.empty() || layer.dims.d_out != layer.dims.d_model) return;
  const bool here = layer.settings.residual;
  const Stage to = here ? Stage::residual : Stage::output;
  const StageSet last = StageSet{to};
  const auto add = [&](const char* id, std::string did,
                       const std::function<Tensor(Layer&)>& other) {
    list.add_rows(id, last, std::move(did),
                  here ? "add the input X itself to the output, once"
                       : "compare before the residual connection: the output alone",
                  [to, other](Layer& edited) {
                    const Tensor output = value_of(edited, Stage::output);
                    give(edited, to, sum_of(output, other(edited)));
                  })
        .rare = true;
  };
  if (layer.settings.input_norm != InputNorm::none)
    add("residual.normed", "adds the normalised input to the output, not X",
        [](Layer& edited) { return value_of(edited, Stage::x); });
  add("residual.output", "adds the output to itself",
      [](Layer& edited) { return value_of(edited, Stage::output); });
  if (here)
    add("residual.twice", "adds the input twice",
        [](Layer& edited) { return sum_of(edited.X, edited.X); });
  if (layer.dims.H * layer.dims.d_v == layer.dims.d_out)
    add("residual.output", "adds the joined heads to the output",
        [](Layer& edited) { return value_of(edited, Stage::concat); });
}

std::vector<Change> together_changes(const Subject& subject) {
  ChangeList list;
  add_biases(subject.layer, list);
  add_transposed(subject.layer, list);
  add_residuals(subject.layer, list);
  return list.take();
}

} // namespace

const Theme together_theme{
    "together", "bias.missing weight.transposed residual.normed residual.output residual.twice",
    together_changes};

} // namespace mha
