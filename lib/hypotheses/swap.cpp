// Roles exchanged: K and V, Q and K.

#include "hypotheses/edit.hpp"
#include "hypotheses/themes.hpp"

#include <utility>

namespace mha {

namespace {

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.empty() == b.empty() && (a.empty() || a.shape() == b.shape());
}

/// Exchanges the projections of two stages, or the stages where both are given.
void exchange(Layer& layer, Stage a, Stage b, Tensor Layer::*W_a, Tensor Layer::*W_b,
              Tensor Layer::*b_a, Tensor Layer::*b_b) {
  if (layer.has_given(a) && layer.has_given(b)) {
    std::swap(layer.given[index_of(a)], layer.given[index_of(b)]);
    return;
  }
  std::swap(layer.*W_a, layer.*W_b);
  std::swap(layer.*b_a, layer.*b_b);
}

std::vector<Change> changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Dims& dims = layer.dims;
  std::vector<Change> list;
  const bool weights_k_v = !layer.W_k.empty() && same_shape(layer.W_k, layer.W_v);
  const bool given_k_v = layer.has_given(Stage::k) && layer.has_given(Stage::v);
  if (dims.d_k == dims.d_v && (weights_k_v || given_k_v)) {
    Change change;
    change.id = "swap.kv";
    change.touches = set_of({Stage::k, Stage::v});
    change.did = "takes keys for values and values for keys";
    change.cure = "exchange the projections of k and v";
    change.option = subject.fused ? "--qkv-order qvk" : "";
    change.edit = [](Layer& edited) {
      exchange(edited, Stage::k, Stage::v, &Layer::W_k, &Layer::W_v, &Layer::b_k, &Layer::b_v);
    };
    list.push_back(change);
  }
  const bool weights_q_k = !layer.W_q.empty() && same_shape(layer.W_q, layer.W_k);
  const bool given_q_k = layer.has_given(Stage::q) && layer.has_given(Stage::k) && dims.T == dims.S;
  if (dims.H == dims.H_kv && (weights_q_k || given_q_k)) {
    Change change;
    change.id = "swap.qk";
    change.touches = set_of({Stage::q, Stage::k});
    change.did = "takes queries for keys and keys for queries";
    change.cure = "exchange the projections of q and k";
    change.option = subject.fused ? "--qkv-order kqv" : "";
    change.edit = [](Layer& edited) {
      exchange(edited, Stage::q, Stage::k, &Layer::W_q, &Layer::W_k, &Layer::b_q, &Layer::b_k);
    };
    list.push_back(change);
  }
  // q and k as they should be, and then k qᵀ.
  const bool shows_q_k = (subject.reference & set_of({Stage::q, Stage::k, Stage::q_norm,
                                                      Stage::k_norm, Stage::q_rope, Stage::k_rope}))
                             .any();
  if (shows_q_k && dims.H == dims.H_kv && dims.T == dims.S_all) {
    Change change;
    change.id = "swap.qk";
    change.touches = set_of({Stage::scores});
    change.did = "computes k qᵀ instead of q kᵀ";
    change.cure = "let queries count the rows of the scores and keys the columns: q kᵀ";
    change.edit = [](Layer& edited) {
      give(edited, Stage::scores, transposed(value_of(edited, Stage::scores)));
    };
    list.push_back(change);
  }
  return list;
}

} // namespace

const Theme swap_theme{"swap", "swap.kv swap.qk", changes};

} // namespace mha
