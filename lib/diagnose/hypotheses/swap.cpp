// Exchanged roles: keys and values, queries and keys.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <utility>

namespace mha {

namespace {

/// Two roles, with their weights and biases.
struct Roles {
  Stage a, b;
  Tensor Layer::*W_a, Layer::*W_b;
  Tensor Layer::*b_a, Layer::*b_b;
};
constexpr Roles keys_values{Stage::k, Stage::v, &Layer::W_k, &Layer::W_v, &Layer::b_k, &Layer::b_v};
constexpr Roles queries_keys{Stage::q,    Stage::k,    &Layer::W_q,
                             &Layer::W_k, &Layer::b_q, &Layer::b_k};

/// Exchanges the projections, or the stages where both are given.
void exchange(Layer& layer, const Roles& roles, bool biases) {
  if (layer.has_given(roles.a) && layer.has_given(roles.b)) {
    std::swap(layer.given[index_of(roles.a)], layer.given[index_of(roles.b)]);
    return;
  }
  std::swap(layer.*roles.W_a, layer.*roles.W_b);
  if (biases) std::swap(layer.*roles.b_a, layer.*roles.b_b);
}

bool can_exchange(const Layer& layer, const Roles& roles) {
  const Tensor &a = layer.*roles.W_a, &b = layer.*roles.W_b;
  if (!a.empty() && !b.empty()) return a.shape() == b.shape();
  return a.empty() && b.empty() && layer.has_given(roles.a) && layer.has_given(roles.b) &&
         layer.given[index_of(roles.a)].shape() == layer.given[index_of(roles.b)].shape();
}

void add_exchange(const Subject& subject, const char* id, const Roles& roles,
                  const char* description, const char* order, ChangeList& list) {
  const Layer& layer = subject.layer;
  if (!can_exchange(layer, roles)) return;
  const bool has_biases = !(layer.*roles.b_a).empty() || !(layer.*roles.b_b).empty();
  for (const bool biases : {true, false}) {
    if (!biases && !has_biases) continue;
    Change& change =
        list.add(id, StageSet{roles.a, roles.b},
                 fmt::format("uses {}{}", description, biases ? "" : ", but not their biases"),
                 fmt::format("exchange the {} of {} and {}", biases ? "projections" : "weights",
                             name_of(roles.a), name_of(roles.b)),
                 [&roles, biases](Layer& edited) { exchange(edited, roles, biases); });
    if (subject.fused && biases && layer.settings.qkv_order == QkvOrder::qkv)
      change.reproduction = {{"qkv_order", order}};
  }
}

std::vector<Change> swap_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Dims& dims = layer.dims;
  ChangeList list;
  if (dims.d_k == dims.d_v)
    add_exchange(subject, "swap.kv", keys_values, "keys as values and values as keys", "qvk", list);
  if (dims.H == dims.H_kv)
    add_exchange(subject, "swap.qk", queries_keys, "queries as keys and keys as queries", "kqv",
                 list);
  // q and k are right, but the scores are k qᵀ.
  const bool shows_q_k = (subject.reference & StageSet{Stage::q, Stage::k, Stage::q_norm,
                                                       Stage::k_norm, Stage::q_rope, Stage::k_rope})
                             .any();
  if (shows_q_k && dims.H == dims.H_kv && dims.T == dims.S_all)
    list.add("swap.qk", StageSet{Stage::scores}, "computes k qᵀ instead of q kᵀ",
             "let queries count the rows of the scores and keys the columns: q kᵀ",
             [](Layer& edited) {
               give(edited, Stage::scores, transposed(value_of(edited, Stage::scores)));
             });
  return list.take();
}

} // namespace

const Theme swap_theme{"swap", "swap.kv swap.qk", swap_changes};

} // namespace mha
