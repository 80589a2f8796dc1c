// The norms around attention and the feed-forward: left out, of another kind, form or weight,
// exchanged, rounded.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/hypotheses/precision.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mha {

namespace {

constexpr const char* theme_name = "block_norm";

/// The results of attention and the feed-forward without the factor that multiplies them before
/// they are added, or with it twice.
void add_multipliers(const TransformerBlock& block, ChangeList& list) {
  struct ScaledSublayer {
    const char* name;
    std::vector<Norm TransformerBlock::*> norms;
    StageSet makes;
  };
  const auto attention = &TransformerBlock::post_attention_norm,
             feed_forward = &TransformerBlock::post_mlp_norm;
  for (const ScaledSublayer& of :
       {ScaledSublayer{"what attention and the feed-forward add",
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

/// Each norm of the block in other forms.
void add_each(const Layer& layer, ChangeList& list) {
  for (const NormRow& row : norms_of(layer, own_norms_of_block())) {
    const NormGroup alone{theme_name, row.name, {row}};
    list.add(missing(alone)), list.add(twice(alone));
    for (const OtherNorm& other : other_norms(row.of(layer), false)) list.add(formed(alone, other));
  }
}

/// Norms that implementations make of one class, together in other forms. For all norms of the
/// layer (`whole`) the formula may also be wrong, not only the settings.
void add_together(const Layer& layer, const NormGroup& group, bool whole, ChangeList& list) {
  if (group.rows.size() < 2) return;
  list.add(missing(group));
  std::vector<Norm> own;
  for (const NormRow& row : group.rows) own.push_back(row.of(layer));
  // The weight of attention's norm already includes the 1, so that a norm with one_plus is
  // preferred for the description.
  const auto plus = std::ranges::find_if(own, &Norm::one_plus);
  const NormGroup with_heads = all_norms_and_heads(layer);
  for (const OtherNorm& other : other_norms(plus == own.end() ? own.front() : *plus, whole)) {
    const bool of_class = other.id == "one_plus" || other.id == "weight" || other.id == "kind";
    if (!whole && (!of_class || !other.form)) continue;
    list.add(formed(group, other));
    const bool of_heads = other.form && (of_class || other.id == "eps") && other.id != "weight";
    if (whole && of_heads && !with_heads.rows.empty()) list.add(formed(with_heads, other));
  }
}

/// A block with four norms in code for two, where the norm after attention has the name of the one
/// before the feed-forward.
void add_four_as_two(ChangeList& list) {
  list.add("block_norm.other", StageSet{Stage::attn_add, Stage::mlp_x, Stage::mlp_add},
           "has two norms instead of four: the norm after attention is placed before the "
           "feed-forward, the other two are left out",
           "normalise both results before they are added, and the feed-forward's input with its "
           "own norm",
           [](Layer& edited) {
             TransformerBlock& block = own_block(edited);
             block.pre_mlp_norm = block.post_attention_norm;
             block.post_attention_norm = block.post_mlp_norm = {};
           });
}

void add_groups(const Layer& layer, ChangeList& list) {
  add_together(layer, all_norms(layer), true, list);
  if (layer.block->shape != BlockShape::sandwich) return;
  if (is_multiplier(layer.block->post_mlp_norm)) return;
  add_four_as_two(list);
  const auto add = [&](const char* name, StageSet made) {
    add_together(layer, {theme_name, name, norms_of(layer, made)}, false, list);
  };
  add("both norms after attention and feed-forward", {Stage::attn_add, Stage::mlp_add});
  add("both norms before attention and feed-forward", {Stage::x, Stage::mlp_x});
}

/// Two norms of a layer exchanged, or one used in place of another.
void add_exchanged(const Layer& layer, ChangeList& list) {
  std::vector<NormRow> rows = norms_of(layer, norms_around());
  std::erase_if(rows, [&](const NormRow& row) { return row.of(layer).weight.empty(); });
  for (const NormRow& to : rows)
    for (const NormRow& from : rows) {
      if (to.makes == from.makes) continue;
      list.add("block_norm.other", StageSet{to.makes},
               fmt::format("uses the weights of {} for {}", from.name, to.name),
               fmt::format("load the weights of {} itself", to.name),
               [to, from](Layer& edited) { to.put(edited, from.of(edited)); });
      if (to.makes > from.makes) continue;
      list.add("block_norm.other", StageSet{to.makes, from.makes},
               fmt::format("exchanges {} and {}", to.name, from.name), "exchange them back",
               [to, from](Layer& edited) {
                 const Norm one = to.of(edited), other = from.of(edited);
                 to.put(edited, other), from.put(edited, one);
               });
    }
}

/// The same norm's weights from another layer.
void add_other_layers_norms(const Subject& subject, ChangeList& list) {
  if (!subject.model || !subject.model->layer) return;
  for (std::size_t other = 0; other < subject.model->layers; ++other) {
    if (other == subject.model->number) continue;
    for (const NormRow& row : norms_of(subject.layer, norms_around()))
      list.add("block.weights.other", StageSet{row.makes},
               fmt::format("uses layer {}'s weights for {}", other, row.name),
               fmt::format("load this layer's own weights of {}", row.name),
               [model = subject.model, other, row](Layer& edited) {
                 const std::shared_ptr<const Layer> from = model->layer(other);
                 if (!from || !from->block) fail("layer {} is not a block", other);
                 row.put(edited, row.of(*from));
               });
  }
}

/// The results of norms kept in a short type, of all norms or of a single one.
void add_rounded(const Layer& layer, ChangeList& list) {
  const auto add = [&](const NormGroup& group) {
    for (const auto& [to, name] : {std::pair{DType::bf16, "bfloat16"}, {DType::f16, "float16"}})
      list.add("block_norm.rounded", group.makes(),
               fmt::format("rounds what {} gives to {}", group.name, name), "keep it in float32",
               [made = group.makes(), to = to](Layer& edited) {
                 for (const Stage stage : made)
                   give(edited, stage, rounded_to(value_of(edited, stage), to));
               });
  };
  const NormGroup all = all_norms(layer);
  for (const NormRow& row : all.rows) add({theme_name, row.name, {row}});
  if (all.rows.size() > 1) add(all);
}

std::vector<Change> block_norm_changes(const Subject& subject) {
  if (!subject.layer.block) return {};
  ChangeList list;
  add_multipliers(*subject.layer.block, list);
  add_each(subject.layer, list);
  add_groups(subject.layer, list);
  add_exchanged(subject.layer, list);
  add_other_layers_norms(subject, list);
  add_rounded(subject.layer, list);
  list.all_rare();
  return list.take();
}

} // namespace

const Theme block_norm_theme{
    theme_name,
    "block_norm.missing block_norm.kind block_norm.eps block_norm.one_plus block_norm.twice "
    "block_norm.weight block_norm.bias block_norm.form block_norm.other block_norm.rounded",
    block_norm_changes};

} // namespace mha
