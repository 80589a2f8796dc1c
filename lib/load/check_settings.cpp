#include <mha/load/assemble_steps.hpp>

#include <mha/layer/graph.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

constexpr std::string_view starts_at = "the computation starts at ";

/// A given stage makes the settings of the steps before it idle. The given one from `own` on; "":
/// there is none.
std::string replaced(const Layer& layer, Stage own) {
  for (std::size_t i = index_of(own); i <= index_of(Stage::weights); ++i) {
    const StageInfo& info = stages()[i];
    const bool replaces = info.kind == Kind::map || info.stage == own;
    if (replaces && layer.has_given(info.stage)) return fmt::format("{}{}", starts_at, info.name);
  }
  return "";
}

/// The given stage for settings before queries, keys and values: all three, or a later one.
std::string before_heads(const Layer& layer) {
  const bool all =
      layer.has_given(Stage::q) && layer.has_given(Stage::k) && layer.has_given(Stage::v);
  return all ? fmt::format("{}q, k and v", starts_at) : replaced(layer, Stage::scores);
}

/// A setting of rotary embedding, and the kinds of scaling that read it; an empty list: all do.
struct RopeSetting {
  std::string_view name;
  std::vector<RopeScaling> read_by;
};

const std::vector<RopeSetting>& rope_settings() {
  using enum RopeScaling;
  static const std::vector<RopeSetting> list{
      {"rope_base", {}},
      {"rope_dims", {}},
      {"rope_first", {}},
      {"rope_offset", {}},
      {"rope_scaling", {}},
      {"rope_attention_factor", {}},
      {"rope_factor", {linear, dynamic, yarn, llama3, longrope}},
      {"rope_low_freq_factor", {llama3}},
      {"rope_high_freq_factor", {llama3}},
      {"rope_original_length", {dynamic, yarn, llama3, longrope}},
      {"rope_length", {dynamic, longrope}},
      {"rope_beta_fast", {yarn}},
      {"rope_beta_slow", {yarn}},
      {"rope_truncate", {yarn}},
      {"rope_mscale", {yarn}},
      {"rope_mscale_all_dim", {yarn}},
  };
  return list;
}

std::string idle_rope(const Settings& s, const RopeSetting& setting) {
  if (!setting.read_by.empty() && !is_one_of(s.rope_scaling, setting.read_by))
    return fmt::format("rope_scaling is {}", find_setting("rope_scaling")->get(s));
  if (setting.name == "rope_offset" && s.temperature != 0) return ""; // positions begin with it
  return s.rope == Rope::none ? "rope is none" : "";
}

/// Why a setting has no effect on this layer; "": it has one.
std::string idle(const Layer& layer, std::string_view name) {
  const Settings& s = layer.settings;
  if (const RopeSetting* rope = find_named(rope_settings(), name)) return idle_rope(s, *rope);
  if (is_one_of(name, {"mrope_section", "mrope_interleaved"})) {
    if (s.rope == Rope::none) return "rope is none";
    return layer.positions.rank() == 2 ? "" : "positions are one row, which every pair turns by";
  }
  if (name == "input_norm_eps" && s.input_norm == InputNorm::none) return "input_norm is none";
  const bool normed = !layer.q_norm_weight.empty() || !layer.k_norm_weight.empty();
  const bool norms_heads = !layer.v_norm_weight.empty() || !layer.head_norm_weight.empty();
  const bool latent = !layer.W_c_q.empty() || !layer.W_c_kv.empty();
  if (name == "norm_after_rotation" && s.rope == Rope::none) return "rope is none";
  if (is_one_of(name, {"qk_norm", "qk_norm_eps", "qk_norm_one_plus", "norm_after_rotation"}) &&
      !normed && (name != "qk_norm_eps" || !(latent || norms_heads)))
    return "there is no q_norm.weight and no k_norm.weight";
  if (name == "relative_key_query" && layer.relative_key.empty()) return "there is no relative_key";
  if (name == "clip_qkv" && s.clip_qkv > 0) return before_heads(layer);
  if (name == "input_norm" && s.input_norm != InputNorm::none)
    return layer.has_given(Stage::x) ? fmt::format("{}x", starts_at) : before_heads(layer);
  if (name == "residual" && s.residual && layer.X.empty() && !before_heads(layer).empty())
    return "there is no X to add";
  if (is_one_of(name, {"relative_bidirectional", "relative_max_distance"}) &&
      layer.relative_bias.empty())
    return "there is no relative_bias";
  if (name == "causal_align" && !s.causal && s.window_left < 0 && s.window_right < 0 &&
      s.window_chunk == 0 && s.alibi == Alibi::none && layer.relative_bias.empty())
    return "the layer is not causal and has no window";
  if (name == "rope" && s.rope != Rope::none) return replaced(layer, Stage::scores);
  if (name == "scale") return replaced(layer, Stage::scaled);
  if (name == "softcap" && s.softcap > 0) return replaced(layer, Stage::capped);
  if (name == "alibi" && s.alibi != Alibi::none) return replaced(layer, Stage::biased);
  if (name == "gate_activation" && !has_step(layer, Stage::gate)) return "there is no gate";
  if (is_one_of(name, {"temperature_length", "temperature_offset"}) && s.temperature == 0)
    return "temperature is 0";
  if (name == "temperature" && s.temperature != 0) return replaced(layer, Stage::scaled);
  if (is_one_of(name, {"causal", "window_left", "window_right", "window_chunk"}))
    return replaced(layer, Stage::masked);
  return "";
}

/// Whether a setting still decides which keys are shown as masked, though the softmax is not
/// computed.
bool only_hides_keys(const Layer& layer, std::string_view name) {
  return is_one_of(name, {"causal", "window_left", "window_right", "window_chunk"}) &&
         !layer.has_given(Stage::masked) && !layer.has_given(Stage::shifted);
}

/// Throws Error where a kind of rotary scaling lacks what it needs; `pairs` are rotated.
template <class Origin>
void check_rotary(const Layer& layer, std::size_t pairs, const Origin& origin) {
  const Settings& s = layer.settings;
  const auto& [time, height, width] = s.mrope_section;
  if (const std::size_t sum = time + height + width; layer.positions.rank() == 2 && sum != pairs)
    fail("{}: mrope_section is {},{},{}: {} pairs, but {} are rotated", origin("mrope_section"),
         time, height, width, sum, pairs);
  if (time == 0 && height + width > 0 && layer.positions.rank() != 2)
    fail("{}: mrope_section is 0,{},{}: all pairs turn by rows and columns, which are not known; "
         "give <positions=FILE>, (3, {}): zeros, each token's row, its column",
         origin("mrope_section"), height, width, layer.dims.T);
  if (s.rope_scaling == RopeScaling::yarn && s.rope_beta_slow > s.rope_beta_fast)
    fail("{}: rope_beta_slow is {}, rope_beta_fast {}: the first must not be the larger one",
         origin(s.origins.count("rope_beta_slow") ? "rope_beta_slow" : "rope_beta_fast"),
         s.rope_beta_slow, s.rope_beta_fast);
  if (s.rope_scaling != RopeScaling::longrope) return;
  for (const auto& [name, factor] : {std::pair("rope_short_factor", &layer.rope_short_factor),
                                     {"rope_long_factor", &layer.rope_long_factor}})
    if (factor->count() != pairs || factor->empty())
      fail("{}: rope_scaling is longrope, and {} {}: {} expected, one a rotated pair; give "
           "<{}=FILE>",
           origin("rope_scaling"), name,
           factor->empty() ? "is missing" : "is " + to_string(factor->shape()),
           counted(pairs, "factors"), name);
    else
      for (const double number : factor->template as<double>())
        if (!(number > 0)) // infinity: a pair that does not turn
          fail("{}: {} holds {}: positive numbers expected, which frequencies are divided by",
               origin("rope_scaling"), name, number);
}

/// Whether a layer's file sets a setting to something else than its default. What a model's family
/// and config set is left out, because a layer has no use for much of it.
bool is_set_by_file(const Settings& settings, const std::string& name, const std::string& from) {
  const SettingInfo* info = find_setting(name);
  return info && !from.empty() && !from.starts_with("config.json") && !from.ends_with(" names") &&
         info->get(settings) != info->get(Settings{});
}

/// Notes settings of options and files that change nothing.
void note_idle(const Layer& layer, std::vector<Note>& notes) {
  const Settings& s = layer.settings;
  for (const auto& [name, from] : s.origins) {
    if (from.starts_with("--text: ")) continue; // of the model that the text is for
    const bool option = is_given(from);
    if (!option && !is_set_by_file(s, name, from)) continue;
    const std::string why = idle(layer, name);
    if (why.empty() || (!option && why.starts_with(starts_at))) continue;
    const std::string what = option ? from : fmt::format("{}: {}", from, name);
    notes.push_back(option && only_hides_keys(layer, name)
                        ? Note(fmt::format("{} changes no number: {}; measures, pictures and "
                                           "pages leave out the keys that it masks",
                                           what, why))
                        : warning(fmt::format("{} changes nothing: {}", what, why)));
  }
}

template <class Origin> void check_qk_norm(const Layer& layer, const Origin& origin) {
  const Settings& s = layer.settings;
  if (s.qk_norm == QkNorm::layer && s.qk_norm_one_plus &&
      !(layer.q_norm_weight.empty() && layer.k_norm_weight.empty()))
    fail("{}: qk_norm_one_plus is only for an RMS norm, but qk_norm is layer ({})",
         origin("qk_norm_one_plus"), origin("qk_norm"));
  if (s.qk_norm == QkNorm::rms && !(layer.q_norm_bias.empty() && layer.k_norm_bias.empty()))
    fail("{}: q_norm.bias and k_norm.bias are only for a layer norm, but qk_norm is rms: give "
         "<qk_norm> "
         "layer, or leave them out",
         origin("qk_norm"));
}

} // namespace

void check_settings(const Layer& layer, const std::string& head_source,
                    const std::string& output_source, std::vector<Note>& notes) {
  const Settings& s = layer.settings;
  const Dims& d = layer.dims;
  const auto origin = [&](const char* name) {
    const auto at = s.origins.find(name);
    return at == s.origins.end() ? std::string("default") : at->second;
  };
  if (s.input_norm == InputNorm::checkpoint)
    fail("{}: input_norm is checkpoint, but nothing in these files defines the model's norm; give "
         "layer or rms",
         origin("input_norm"));
  const StageSet available = available_stages(layer);
  const auto any_of = [&](std::initializer_list<Stage> stages) {
    return std::ranges::any_of(stages, [&](Stage stage) { return contains(available, stage); });
  };
  const bool rotates =
      s.rope != Rope::none && any_of({Stage::q, Stage::q_norm, Stage::k, Stage::k_norm});
  const std::size_t rotated =
      s.rope_dims == 0 ? d.d_k - std::min(s.rope_first, d.d_k) : s.rope_dims;
  if (rotates && s.rope_first > 0 && s.rope_first + rotated > d.d_k)
    fail("{}: rope rotates {} dimensions from number {} on, a head of {} has {}",
         origin("rope_first"), rotated, s.rope_first, head_source, d.d_k);
  if (rotates && (rotated > d.d_k || rotated % 2 != 0))
    fail("{}: rope rotates {} dimensions, a head of {} has {}: expected an even number up to that",
         origin(s.rope_dims == 0 ? "rope" : "rope_dims"), rotated, head_source, d.d_k);
  if (rotates) check_rotary(layer, rotated / 2, origin);
  check_qk_norm(layer, origin);
  if (s.rope_scaling == RopeScaling::llama3 && s.rope_low_freq_factor > s.rope_high_freq_factor)
    fail("{}: rope_low_freq_factor is {}, rope_high_freq_factor {}: the first must not be the "
         "larger one",
         origin(s.origins.count("rope_low_freq_factor") ? "rope_low_freq_factor"
                                                        : "rope_high_freq_factor"),
         s.rope_low_freq_factor, s.rope_high_freq_factor);
  if (s.residual && !layer.X.empty() && d.d_model != d.d_out)
    fail("{}: residual adds X, {} wide, and the output of {}, {} wide: the widths differ",
         origin("residual"), d.d_model, output_source, d.d_out);

  if (!s.residual && !layer.X.empty() && !layer.W_o.empty() && d.d_model != d.d_out)
    notes.emplace_back(fmt::format("the output is {} wide ({}), X {}: a block could not add them",
                                   d.d_out, output_source, d.d_model));
  if (lacks_scale(layer) && any_of({Stage::scores}) && !any_of({Stage::weights}))
    notes.push_back(warning(why_no_scale(layer)));
  note_idle(layer, notes);
  if (s.rope == Rope::none && s.temperature == 0 && !layer.positions.empty())
    notes.push_back(warning("positions change nothing: rope is none"));
  if (s.input_norm == InputNorm::none && !(layer.norm_weight.empty() && layer.norm_bias.empty()))
    notes.push_back(warning(
        "norm.weight and norm.bias change nothing: input_norm is none; layer or rms applies them"));
}

} // namespace mha
