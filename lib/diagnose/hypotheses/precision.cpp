// Computed in half precision: every tensor and every step rounded.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

namespace mha {

namespace {

Tensor rounded(const Tensor& tensor, DType to) {
  return convert(convert(tensor, to), tensor.dtype());
}

void round_steps(Layer& layer, DType to, std::initializer_list<Stage> steps) {
  for (Stage stage : steps) {
    if (layer.has_given(stage) || !has_step(layer, stage)) continue;
    if (!contains(available_stages(layer), stage)) continue;
    give(layer, stage, rounded(value_of(layer, stage), to));
  }
}

void round_tensors(Layer& layer, DType to) {
  for (Tensor Layer::*tensor : {&Layer::X, &Layer::X_k, &Layer::X_v, &Layer::W_q, &Layer::W_k,
                                &Layer::W_v, &Layer::W_o, &Layer::b_q, &Layer::b_k, &Layer::b_v,
                                &Layer::b_o, &Layer::q_norm_weight, &Layer::k_norm_weight})
    if (!(layer.*tensor).empty()) layer.*tensor = rounded(layer.*tensor, to);
}

std::vector<Change> changes(const Subject&) {
  std::vector<Change> list;
  for (const auto& [dtype, id] :
       {std::pair(DType::f16, "precision.f16"), {DType::bf16, "precision.bf16"}}) {
    Change change;
    change.id = id;
    change.touches.set();
    change.rounds_to = dtype, change.fitted = true;
    change.did = fmt::format("computes in {}: every step is rounded", name_of(dtype));
    change.cure = "nothing is wrong but the rounding; compute in float32 to compare more closely";
    change.edit = [dtype = dtype](Layer& edited) {
      round_tensors(edited, dtype);
      round_steps(edited, dtype,
                  {Stage::x, Stage::q, Stage::k, Stage::v, Stage::q_norm, Stage::k_norm,
                   Stage::q_rope, Stage::k_rope, Stage::k_all, Stage::v_all});
    };
    change.edit_rows = [dtype = dtype](Layer& edited) {
      round_steps(edited, dtype,
                  {Stage::scores, Stage::scaled, Stage::capped, Stage::biased, Stage::masked,
                   Stage::weights, Stage::head_out, Stage::output, Stage::residual});
    };
    list.push_back(change);
  }
  return list;
}

} // namespace

const Theme precision_theme{"precision", "precision.f16 precision.bf16", changes};

} // namespace mha
