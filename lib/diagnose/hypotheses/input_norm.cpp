// The norm before the projections: left out or added, of another kind or with other parameters,
// applied twice, or seen only by some projections.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

namespace mha {

namespace {

StageSet norm_output_stage() {
  return StageSet{Stage::x};
}

const char* setting_value_of(InputNorm norm) {
  return norm == InputNorm::rms ? "rms" : "layer";
}
const char* name_of_norm(InputNorm norm) {
  return norm == InputNorm::rms ? "RMSNorm" : "LayerNorm";
}

/// For a layer without an input norm: the reference has one.
void add_norms(const Layer& layer, ChangeList& list) {
  for (InputNorm kind : {InputNorm::layer, InputNorm::rms})
    list.add_settings(
        "input_norm.added", norm_output_stage(),
        fmt::format("normalises X before the projections ({}{})", name_of_norm(kind),
                    layer.norm_weight.empty() ? ", without weights" : ""),
        "give the projections X without a norm, or let X here be the normalised input",
        {{"input_norm", setting_value_of(kind)}});
}

/// Only some projections see the normalised input.
void add_partial_norms(const Layer& layer, ChangeList& list) {
  if (layer.X_k.empty() && layer.X_v.empty()) { // self-attention only
    list.add("input_norm.missing.kv", StageSet{Stage::k, Stage::v},
             "computes keys and values from X without the norm, only queries from norm(X)",
             "compute keys and values from the normalised input as well",
             [](Layer& edited) { edited.X_k = edited.X_v = edited.X; });
    list.add("input_norm.missing.v", StageSet{Stage::v}, "computes values from X without the norm",
             "compute the values from the normalised input as well",
             [](Layer& edited) { edited.X_v = edited.X; });
  }
  list.add("input_norm.missing.q", StageSet{Stage::q}, "computes queries from X without the norm",
           "compute the queries from the normalised input as well", [](Layer& edited) {
             Layer plain = edited;
             plain.settings.input_norm = InputNorm::none;
             clear_given(plain, {Stage::x, Stage::q});
             give(edited, Stage::q, value_of(plain, Stage::q));
           });
}

void add_forms(const Layer& layer, const NormGroup& norm, ChangeList& list) {
  const bool rms = layer.settings.input_norm == InputNorm::rms;
  const auto add = [&](const char* id, std::string mistake, std::string fix, NormForm form) {
    form.centres = form.centres && !rms, form.adds_bias = form.adds_bias && !rms;
    list.add(id, norm_output_stage(), std::move(mistake), std::move(fix), [form](Layer& edited) {
      give(edited, Stage::x, normed(attention_norm(edited), edited.X, form));
    });
  };
  NormForm form;
  if (!layer.norm_weight.empty()) {
    form.weight_offset = 1;
    add("input_norm.one_plus", "multiplies the normalised input by 1 + w", "multiply it by w",
        form);
    form.weight_offset = -1;
    add("input_norm.one_plus", "multiplies the normalised input by w, where w is stored as w − 1",
        "multiply it by 1 + w", form);
    list.add("input_norm.weight", norm_output_stage(), "leaves out the norm's weight",
             "multiply the normalised input by norm.weight",
             [](Layer& edited) { edited.norm_weight = {}; });
  }
  if (!rms && !layer.norm_bias.empty())
    list.add("input_norm.bias", norm_output_stage(), "leaves out the norm's bias",
             "add norm.bias after the norm's weight", [](Layer& edited) { edited.norm_bias = {}; });
  for (const OtherNorm& other : other_norms(norm.rows[0].of(layer), !layer.block))
    if (!other.form) list.add(formed(norm, other));
}

std::vector<Change> input_norm_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Settings& s = layer.settings;
  if (layer.X.empty() || layer.has_given(Stage::x)) return {};
  ChangeList list;
  if (s.input_norm == InputNorm::none) {
    if (layer.block) return {}; // the theme norm_place places the norms of a block
    add_norms(layer, list);
    list.all_rare();
    return list.take();
  }
  const NormGroup norm{"input_norm", "the norm before the projections",
                       norms_of(layer, norm_output_stage())};
  list.add_settings(
      "input_norm.missing", norm_output_stage(), "does not normalise X",
      fmt::format("normalise X ({}) before the projections", name_of_norm(s.input_norm)),
      {{"input_norm", "none"}});
  const InputNorm other = s.input_norm == InputNorm::rms ? InputNorm::layer : InputNorm::rms;
  list.add_settings("input_norm.kind", norm_output_stage(),
                    fmt::format("normalises X with {}", name_of_norm(other)),
                    fmt::format("use {} before the projections", name_of_norm(s.input_norm)),
                    {{"input_norm", setting_value_of(other)}});
  list.add("input_norm.twice", norm_output_stage(), "normalises X twice", "normalise X once",
           twice(norm).edit);
  for (double eps : {1e-5, 1e-6, 1e-7, 1e-12, 1e-8, 1e-4, 1e-3, 1e-2, 1e-1, 0.0})
    if (eps != s.input_norm_eps) list.add(input_norm_eps_change(layer, eps));
  add_forms(layer, norm, list);
  add_partial_norms(layer, list);
  std::vector<Change> all = list.take();
  // A trial recomputes all projections, so that only the two likeliest are tried together with
  // other changes.
  for (Change& change : all)
    change.rare = change.id != "input_norm.missing" && change.id != "input_norm.kind";
  return all;
}

} // namespace

Change input_norm_eps_change(const Layer& layer, double eps) {
  return settings_change("input_norm.eps", norm_output_stage(),
                         fmt::format("normalises X with ε = {:.4g}", eps),
                         fmt::format("normalise X with ε = {:g}", layer.settings.input_norm_eps),
                         {{"input_norm_eps", eps, 9}});
}

const Theme input_norm_theme{
    .name = "input_norm",
    .ids = "input_norm.missing input_norm.added input_norm.kind input_norm.twice input_norm.eps "
           "input_norm.one_plus input_norm.weight input_norm.bias input_norm.form "
           "input_norm.missing.q input_norm.missing.kv input_norm.missing.v",
    .changes = input_norm_changes};

} // namespace mha
