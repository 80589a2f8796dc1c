// The norms around attention and the feed-forward: whether, where, of which kind, with which
// weight.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/epsilon.hpp>
#include <mha/diagnose/hypotheses/precision.hpp>
#include <mha/diagnose/hypotheses/surroundings.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mha {

namespace {

struct BlockNorm {
  Norm TransformerBlock::*norm;
  Stage makes;
  const char* name;
};

/// What such a norm is given.
Tensor normed_by(const Layer& layer, const BlockNorm& one) {
  switch (one.makes) {
  case Stage::attn_add:
    return value_of(layer, Stage::output);
  case Stage::mlp_add:
    return value_of(layer, Stage::mlp_out);
  case Stage::mlp_x:
    return layer.block->shape == BlockShape::parallel ? layer.X : value_of(layer, Stage::residual);
  default:
    return sum_of(value_of(layer, Stage::mlp_x), value_of(layer, Stage::mlp_add));
  }
}
constexpr BlockNorm block_norms[]{
    {&TransformerBlock::post_attention_norm, Stage::attn_add, "the norm behind attention"},
    {&TransformerBlock::pre_mlp_norm, Stage::mlp_x, "the norm before the feed-forward"},
    {&TransformerBlock::post_mlp_norm, Stage::mlp_add, "the norm behind the feed-forward"},
    {&TransformerBlock::post_block_norm, Stage::resid_post, "the norm at the block's end"},
};

/// Whether it only multiplies, all numbers by the same.
bool is_multiplier(const Norm& norm) {
  if (norm.kind != InputNorm::affine || !norm.bias.empty() || norm.weight.empty()) return false;
  for (std::size_t i = 1; i < norm.weight.count(); ++i)
    if (value_at(norm.weight, i) != value_at(norm.weight, 0)) return false;
  return true;
}

/// A block's sublayers' results without the number by which they are multiplied before they are
/// added, or with it twice.
void add_multipliers(const TransformerBlock& block, ChangeList& list) {
  struct Of {
    const char* name;
    std::vector<Norm TransformerBlock::*> norms;
    StageSet makes;
  };
  const auto attention = &TransformerBlock::post_attention_norm,
             feed_forward = &TransformerBlock::post_mlp_norm;
  for (const Of& of : {Of{"what attention and the feed-forward add",
                          {attention, feed_forward},
                          StageSet{Stage::attn_add, Stage::mlp_add}},
                       {"what attention adds", {attention}, StageSet{Stage::attn_add}},
                       {"what the feed-forward adds", {feed_forward}, StageSet{Stage::mlp_add}}}) {
    if (!std::ranges::all_of(of.norms, [&](auto norm) { return is_multiplier(block.*norm); }))
      continue;
    const double own = value_at((block.*of.norms.front()).weight, 0);
    const auto add = [&](const char* did, const std::function<Norm(Norm)>& form) {
      list.add("block.residual.scaled", of.makes, fmt::format(fmt::runtime(did), of.name, own),
               fmt::format("multiply {} by {:g}, once", of.name, own),
               [norms = of.norms, form](Layer& edited) {
                 for (const auto norm : norms)
                   own_block(edited).*norm = form(edited.block.get()->*norm);
               });
    };
    add("does not multiply {} by {:g}", [](const Norm&) { return Norm{}; });
    add("multiplies {} by {:g} twice", [](Norm norm) {
      norm.weight = each_number(norm.weight, [](double w) { return w * w; });
      return norm;
    });
  }
}

/// One of a block's norms in another form.
Change formed(const BlockNorm& one, const OtherNorm& other) {
  std::function<void(Layer&)> edit = [one, form = other.form](Layer& layer) {
    own_block(layer).*one.norm = form((*layer.block).*one.norm);
  };
  if (!other.form)
    edit = [one, rows = other.rows](Layer& layer) {
      give(layer, one.makes, rows((*layer.block).*one.norm, normed_by(layer, one)));
    };
  return {"block_norm." + other.id, StageSet{one.makes}, with_name(other.did, one.name),
          with_name(other.cure, one.name), std::move(edit)};
}

void add_block_forms(const TransformerBlock& block, ChangeList& list) {
  for (const BlockNorm& one : block_norms) {
    const Norm& norm = block.*one.norm;
    if (!norm.present() || is_multiplier(norm)) continue;
    list.add("block_norm.missing", StageSet{one.makes}, fmt::format("leaves out {}", one.name),
             fmt::format("apply {}", one.name),
             [member = one.norm](Layer& layer) { own_block(layer).*member = Norm{}; });
    list.add("block_norm.twice", StageSet{one.makes}, fmt::format("applies {} twice", one.name),
             fmt::format("apply {} once", one.name), [one](Layer& layer) {
               const Norm& own = (*layer.block).*one.norm;
               give(layer, one.makes, normed(own, normed(own, normed_by(layer, one))));
             });
    for (const OtherNorm& other : other_norms(norm, false)) list.add(formed(one, other));
  }
}

/// Norms of a layer that implementations make of one class.
struct NormGroup {
  const char* name;
  StageSet makes;
  bool whole; ///< every norm of the layer: its formula may be wrong, not what it is told alone

  /// Calls f(norm, stage) for each of them that the layer has, in their order.
  template <class F> void each(const Layer& layer, F f) const {
    if (const Norm norm = attention_norm(layer); norm.present() && contains(makes, Stage::x))
      f(norm, Stage::x);
    for (const BlockNorm& one : block_norms)
      if (const Norm norm = (*layer.block).*one.norm;
          norm.present() && !is_multiplier(norm) && contains(makes, one.makes))
        f(norm, one.makes);
  }
  /// What one of them is given.
  static Tensor input_of(const Layer& layer, Stage makes) {
    for (const BlockNorm& one : block_norms)
      if (one.makes == makes) return normed_by(layer, one);
    return layer.X;
  }
};

const NormGroup all_norms{every_norm, StageSet::all(), true};

/// The norms of q and k in another form, as a Norm has it.
void form_heads(Layer& layer, const std::function<Norm(Norm)>& form) {
  for (Tensor Layer::*weight : {&Layer::q_norm_weight, &Layer::k_norm_weight}) {
    if ((layer.*weight).empty()) fail("another change took the norm away");
    Norm norm;
    norm.kind = layer.settings.qk_norm == QkNorm::rms ? InputNorm::rms : InputNorm::layer;
    norm.eps = layer.settings.qk_norm_eps, norm.weight = layer.*weight;
    norm.one_plus = layer.settings.qk_norm_one_plus;
    norm = form(norm);
    if (norm.weight.empty() || !layer.q_norm_bias.empty()) fail("no such norm of q and k");
    const double more = norm.one_plus ? 1 : 0;
    layer.*weight =
        convert(each_number(norm.weight, [more](double w) { return w + more; }), layer.dtype);
    if (weight == &Layer::q_norm_weight) continue;
    layer.settings.qk_norm = norm.kind == InputNorm::rms ? QkNorm::rms : QkNorm::layer;
    layer.settings.qk_norm_eps = norm.eps, layer.settings.qk_norm_one_plus = false;
  }
}

/// The norms of a group by another formula, which a Norm can say.
std::function<void(Layer&)> by_form(const NormGroup& group, const std::function<Norm(Norm)>& form) {
  return [group, form](Layer& edited) {
    group.each(Layer(edited), [&](const Norm& norm, Stage makes) {
      if (makes == Stage::x) give(edited, Stage::x, normed(form(norm), edited.X));
      for (const BlockNorm& one : block_norms)
        if (one.makes == makes) own_block(edited).*one.norm = form(norm);
    });
  };
}

/// The same, which rows alone show: each after the ones before it.
std::function<void(Layer&)> by_rows(const NormGroup& group,
                                    const std::function<Tensor(const Norm&, const Tensor&)>& rows) {
  return [group, rows](Layer& edited) {
    group.each(Layer(edited), [&](const Norm& norm, Stage makes) {
      give(edited, makes, rows(norm, NormGroup::input_of(edited, makes)));
    });
  };
}

/// A group's norms in another form.
Change formed(const NormGroup& group, StageSet touched, const OtherNorm& other) {
  return {"block_norm." + other.id, touched, with_name(other.did, group.name),
          with_name(other.cure, group.name),
          other.form ? by_form(group, other.form) : by_rows(group, other.rows)};
}

/// The same with the norms of q and k.
Change formed_with_heads(NormGroup group, StageSet touched, const OtherNorm& other) {
  group.name = every_norm_and_heads;
  Change change = formed(group, touched | qk_norm_stages(), other);
  change.edit = [form = other.form, edit = std::move(change.edit)](Layer& edited) {
    edit(edited);
    form_heads(edited, form);
  };
  return change;
}

/// The norms of a group, in their order, and what they make.
std::pair<std::vector<Norm>, StageSet> norms_of(const NormGroup& group, const Layer& layer) {
  std::pair<std::vector<Norm>, StageSet> found;
  group.each(layer, [&](const Norm& norm, Stage makes) {
    found.first.push_back(norm), found.second.add(makes);
  });
  return found;
}

/// The norms of a group in other forms.
void add_forms_of(const Layer& layer, const NormGroup& group, ChangeList& list) {
  const auto [own, touched] = norms_of(group, layer);
  const bool norms_heads = !layer.q_norm_weight.empty() && !layer.k_norm_weight.empty();
  if (own.size() < 2) return;
  list.add("block_norm.missing", touched, fmt::format("leaves out {}", group.name),
           fmt::format("apply {}", group.name), by_form(group, [](const Norm&) { return Norm{}; }));
  // Attention's own has 1 in its weight already: one that says so has the model's words.
  const auto plus = std::ranges::find_if(own, &Norm::one_plus);
  for (const OtherNorm& other : other_norms(plus == own.end() ? own.front() : *plus, group.whole)) {
    const bool of_class = other.id == "one_plus" || other.id == "weight" || other.id == "kind";
    if (!group.whole && (!of_class || !other.form)) continue;
    list.add(formed(group, touched, other));
    const bool of_heads = other.form && (of_class || other.id == "eps") && other.id != "weight";
    if (group.whole && of_heads && norms_heads) list.add(formed_with_heads(group, touched, other));
  }
}

/// Four norms in code for blocks of two, where the name of the one behind attention is that of the
/// one before the feed-forward.
void add_four_as_two(ChangeList& list) {
  list.add("block_norm.other", StageSet{Stage::attn_add, Stage::mlp_x, Stage::mlp_add},
           "has two norms for four: the norm behind attention stands before the feed-forward, the "
           "other two are left out",
           "norm both results before they are added, and the feed-forward's input by its own norm",
           [](Layer& edited) {
             TransformerBlock& block = own_block(edited);
             block.pre_mlp_norm = block.post_attention_norm;
             block.post_attention_norm = block.post_mlp_norm = {};
           });
}

void add_groups(const Layer& layer, ChangeList& list) {
  add_forms_of(layer, all_norms, list);
  if (layer.block->shape != BlockShape::sandwich) return;
  if (is_multiplier(layer.block->post_mlp_norm)) return;
  add_four_as_two(list);
  add_forms_of(layer,
               {"both norms behind attention and feed-forward",
                StageSet{Stage::attn_add, Stage::mlp_add}, false},
               list);
  add_forms_of(
      layer,
      {"both norms before attention and feed-forward", StageSet{Stage::x, Stage::mlp_x}, false},
      list);
}

/// A norm of the layer as others are taken for it: attention's, or one of the block's.
struct Slot {
  Stage makes;
  std::string name;
  Norm (*norm)(const Layer&);
  void (*use)(Layer&, const Norm&);
};

template <std::size_t n> Slot slot_of() {
  constexpr BlockNorm one = block_norms[n];
  return {one.makes, one.name,
          [](const Layer& layer) { return (*layer.block).*block_norms[n].norm; },
          [](Layer& edited, const Norm& norm) { own_block(edited).*block_norms[n].norm = norm; }};
}

/// Those of the layer, in the order of the computation.
std::vector<Slot> slots_of(const Layer& layer) {
  std::vector<Slot> slots{
      {Stage::x, "the norm before attention", [](const Layer& own) { return attention_norm(own); },
       [](Layer& edited, const Norm& norm) { give(edited, Stage::x, normed(norm, edited.X)); }},
      slot_of<0>(),
      slot_of<1>(),
      slot_of<2>(),
      slot_of<3>()};
  std::erase_if(slots, [&](const Slot& slot) {
    return slot.norm(layer).weight.empty() || is_multiplier(slot.norm(layer));
  });
  return slots;
}

/// Two norms of a layer exchanged, or one taken for another.
void add_exchanged(const Layer& layer, ChangeList& list) {
  const std::vector<Slot> slots = slots_of(layer);
  for (const Slot& to : slots)
    for (const Slot& from : slots) {
      if (to.makes == from.makes) continue;
      list.add("block_norm.other", StageSet{to.makes},
               fmt::format("takes the weights of {} for {}", from.name, to.name),
               fmt::format("load the own weights of {}", to.name),
               [to, from](Layer& edited) { to.use(edited, from.norm(edited)); });
      if (to.makes > from.makes) continue;
      list.add("block_norm.other", StageSet{to.makes, from.makes},
               fmt::format("exchanges {} and {}", to.name, from.name), "exchange them back",
               [to, from](Layer& edited) {
                 const Norm one = to.norm(edited), other = from.norm(edited);
                 to.use(edited, other), from.use(edited, one);
               });
    }
}

/// The same norm's weights of another layer.
void add_other_layers_norms(const Subject& subject, ChangeList& list) {
  if (!subject.model || !subject.model->layer) return;
  for (std::size_t other = 0; other < subject.model->layers; ++other) {
    if (other == subject.model->number) continue;
    const auto add = [&](Stage makes, const char* name,
                         std::function<void(Layer&, const Layer&)> take) {
      list.add("block.weights.other", StageSet{makes},
               fmt::format("takes layer {}'s weights for {}", other, name),
               fmt::format("load this layer's own weights of {}", name),
               [model = subject.model, other, take = std::move(take)](Layer& edited) {
                 const std::shared_ptr<const Layer> from = model->layer(other);
                 if (!from || !from->block) fail("layer {} is no block", other);
                 take(edited, *from);
               });
    };
    if (subject.layer.settings.input_norm != InputNorm::none)
      add(Stage::x, "the norm before attention", [](Layer& edited, const Layer& from) {
        give(edited, Stage::x, normed(attention_norm(from), edited.X));
      });
    for (const BlockNorm& one : block_norms)
      if (const Norm& norm = (*subject.layer.block).*one.norm;
          norm.present() && !is_multiplier(norm))
        add(one.makes, one.name, [norm = one.norm](Layer& edited, const Layer& from) {
          own_block(edited).*norm = (*from.block).*norm;
        });
  }
}

/// What norms give, kept in a short type: of every norm, of each alone.
void add_rounded(const Layer& layer, ChangeList& list) {
  std::vector<std::pair<Stage, std::string>> made;
  if (layer.settings.input_norm != InputNorm::none)
    made.emplace_back(Stage::x, "the norm before attention");
  for (const BlockNorm& one : block_norms)
    if (const Norm& norm = (*layer.block).*one.norm; norm.present() && !is_multiplier(norm))
      made.emplace_back(one.makes, one.name);
  const auto add = [&](const std::vector<Stage>& steps, const std::string& whose) {
    StageSet touched;
    for (Stage step : steps) touched.add(step);
    for (const auto& [to, name] : {std::pair{DType::bf16, "bfloat16"}, {DType::f16, "float16"}})
      list.add("block_norm.rounded", touched, fmt::format("rounds what {} to {}", whose, name),
               "keep it in float32", [steps, to = to](Layer& edited) {
                 for (Stage step : steps)
                   give(edited, step, rounded_to(value_of(edited, step), to));
               });
  };
  std::vector<Stage> all;
  for (const auto& [step, name] : made) all.push_back(step), add({step}, name + " gives");
  std::ranges::sort(all);
  if (all.size() > 1) add(all, "every norm of the layer gives");
}

std::vector<Change> block_norm_changes(const Subject& subject) {
  if (!subject.layer.block) return {};
  ChangeList list;
  add_multipliers(*subject.layer.block, list);
  add_block_forms(*subject.layer.block, list);
  add_groups(subject.layer, list);
  add_exchanged(subject.layer, list);
  add_other_layers_norms(subject, list);
  add_rounded(subject.layer, list);
  list.all_rare();
  return list.take();
}

} // namespace

std::vector<Epsilon> block_epsilons(const Layer& layer) {
  std::vector<Epsilon> list;
  if (!layer.block) return list;
  for (const BlockNorm& one : block_norms)
    if (const Norm& norm = (*layer.block).*one.norm; norm.present() && !is_multiplier(norm))
      list.push_back(
          {norm.eps, [one, norm](double eps) { return formed(one, other_epsilon(norm, eps)); }});
  const auto [own, touched] = norms_of(all_norms, layer);
  if (own.size() < 2) return list;
  const bool norms_heads = !layer.q_norm_weight.empty() && !layer.k_norm_weight.empty();
  for (const bool heads : {false, true})
    if (!heads || norms_heads)
      list.push_back({own.front().eps, [heads, norm = own.front(), makes = touched](double eps) {
                        const OtherNorm other = other_epsilon(norm, eps);
                        return heads ? formed_with_heads(all_norms, makes, other)
                                     : formed(all_norms, makes, other);
                      }});
  return list;
}

const Theme block_norm_theme{
    "block_norm",
    "block_norm.missing block_norm.kind block_norm.eps block_norm.one_plus block_norm.twice "
    "block_norm.weight block_norm.bias block_norm.form block_norm.other block_norm.rounded",
    block_norm_changes};

} // namespace mha
