// Rows of W_q and W_k in the order of GGUF files. In the list of themes these come after the
// conventions of the rotation, which are simpler and may give the same numbers.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <utility>

namespace mha {

namespace {

/// A matrix or bias with the columns of each of `heads` heads in another order.
Tensor with_order(const Tensor& tensor, std::size_t heads, bool to_pairs) {
  const std::size_t d = tensor.shape().back() / heads, half = d / 2;
  return columns_from(tensor, [=](std::size_t i) {
    const std::size_t head = i / d, at = i % d;
    return head * d + (to_pairs ? at % 2 * half + at / 2 : at % half * 2 + at / half);
  });
}

/// Biases that keep their order where W_q and W_k get that of another rotation.
void add_bias_orders(const Layer& layer, ChangeList& list) {
  for (const StageSet stages :
       {StageSet{Stage::q, Stage::k}, StageSet{Stage::q}, StageSet{Stage::k}}) {
    const bool of_q = contains(stages, Stage::q), of_k = contains(stages, Stage::k);
    if ((of_q && layer.b_q.empty()) || (of_k && layer.b_k.empty())) continue;
    for (const bool to_pairs : {true, false})
      list.add("bias.order", stages,
               fmt::format("reorders {} for its rotation, but not {}",
                           of_q && of_k ? "W_q and W_k"
                           : of_q       ? "W_q"
                                        : "W_k",
                           of_q && of_k ? "b_q and b_k"
                           : of_q       ? "b_q"
                                        : "b_k"),
               "reorder each bias together with its weight",
               [=](Layer& edited) { // another change may have removed one
                 if (of_q && !edited.b_q.empty())
                   edited.b_q = with_order(edited.b_q, edited.dims.H, to_pairs);
                 if (of_k && !edited.b_k.empty())
                   edited.b_k = with_order(edited.b_k, edited.dims.H_kv, to_pairs);
               })
          .rare = true;
  }
}

/// Converters to GGUF make rows of W_q and W_k that rotate together neighbours. A port that rotates
/// halves must undo this with the matrix's number of heads.
std::vector<Change> weight_rows_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  ChangeList list;
  const Dims& dims = layer.dims;
  if (layer.settings.rope == Rope::none || dims.d_k % 2 != 0 || dims.d_k < 4 || layer.W_q.empty() ||
      layer.W_k.empty())
    return {};
  struct RotatedWeight {
    Tensor Layer::*W, Layer::*b;
    std::size_t heads;
  };
  const RotatedWeight q{&Layer::W_q, &Layer::b_q, dims.H}, k{&Layer::W_k, &Layer::b_k, dims.H_kv};
  const auto add = [&](StageSet touches, std::string did, std::string cure,
                       std::function<void(Layer&)> edit) {
    list.add("weight.rows", touches, std::move(did), std::move(cure), std::move(edit)).rare = true;
  };
  const auto reorder = [](Layer& edited, const RotatedWeight& of, std::size_t heads,
                          bool to_pairs) {
    for (Tensor Layer::*part : {of.W, of.b})
      if (!(edited.*part).empty())
        edited.*part = with_order(convert(edited.*part, edited.dtype), heads, to_pairs);
  };
  const std::pair<StageSet, const char*> sides[]{{StageSet{Stage::q, Stage::k}, "W_q and W_k"},
                                                 {StageSet{Stage::q}, "W_q alone"},
                                                 {StageSet{Stage::k}, "W_k alone"}};
  for (const auto& [stages, name] : sides)
    for (const bool to_pairs : {true, false})
      add(stages,
          to_pairs ? fmt::format("leaves the rows of {} in GGUF's order, where dimensions that "
                                 "rotate together are neighbours",
                                 name)
                   : fmt::format("turns the rows of {} back from GGUF's order, in which they are "
                                 "not",
                                 name),
          to_pairs ? "turn them back, or rotate neighbours" : "leave their order unchanged",
          [=, stages = stages](Layer& edited) {
            if (contains(stages, Stage::q)) reorder(edited, q, q.heads, to_pairs);
            if (contains(stages, Stage::k)) reorder(edited, k, k.heads, to_pairs);
          });
  add_bias_orders(layer, list);
  const std::size_t width = dims.H_kv * dims.d_k;
  if (dims.H == dims.H_kv || width % dims.H != 0 || width / dims.H % 2 != 0) return list.take();
  add(StageSet{Stage::k},
      fmt::format("turns the rows of W_k back from GGUF's order as {} heads, where it has {}",
                  dims.H, dims.H_kv),
      fmt::format("turn them back as {} heads", dims.H_kv), [=](Layer& edited) {
        reorder(edited, k, k.heads, true), reorder(edited, k, edited.dims.H, false);
      });
  return list.take();
}

} // namespace

const Theme weight_rows_theme{"weight_rows", "weight.rows bias.order bias.heads",
                              weight_rows_changes};

} // namespace mha
