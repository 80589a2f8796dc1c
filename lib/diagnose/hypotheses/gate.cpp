// What is done to heads' results before W_o, and to values: a gate, and norms.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/forward/gate.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <tuple>

namespace mha {

namespace {

const StageSet of_gated{Stage::gated}, of_gate{Stage::gate};

/// z · f(gate), each of a head's numbers by its own number of the gate or by the head's one.
template <class F> Tensor times_gate(const Tensor& z, const Tensor& gate, F f) {
  Tensor result = copied(z);
  const std::size_t each = z.count() / gate.count(); // numbers of z for one of the gate
  by_precision(z.dtype(), [&]<class T>(T) {
    const auto to = result.as_mutable<T>();
    const auto g = gate.as<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] *= static_cast<T>(f(double(g[i / each])));
  });
  return result;
}

/// What the gate multiplies.
Stage before_gate(const Layer& layer) {
  return inputs_of(layer, Stage::gated).front();
}

void leave_out_gate(Layer& layer) {
  give(layer, Stage::gated, value_of(layer, before_gate(layer)));
}

/// The gate through another function.
void add_gate_activation(ChangeList& list, std::string did, double (*act)(double)) {
  list.add(
      "gate.activation", of_gated, std::move(did), "apply the model's own to the gate",
      [act](Layer& layer) {
        give(layer, Stage::gated,
             times_gate(value_of(layer, before_gate(layer)), value_of(layer, Stage::gate), act));
      });
}

void add_gate_activations(const Layer& layer, ChangeList& list) {
  using enum GateActivation;
  constexpr std::tuple<GateActivation, const char*, const char*> known[]{
      {sigmoid, "sigmoid", "σ"}, {softplus, "softplus", "softplus"}, {silu, "silu", "silu"}};
  for (const auto& [activation, word, name] : known)
    if (activation != layer.settings.gate_activation)
      list.add_settings("gate.activation", of_gated, fmt::format("puts the gate through {}", name),
                        "apply the model's own to the gate",
                        {SettingEdit("gate_activation", word)});
  add_gate_activation(list, "multiplies by the gate without an activation",
                      [](double g) { return g; });
  add_gate_activation(list, "puts the gate through tanh", [](double g) { return std::tanh(g); });
  add_gate_activation(list,
                      "puts the gate through 1 + σ, or multiplies and adds the heads' results",
                      [](double g) { return 1 + activated(GateActivation::sigmoid, g); });
}

/// The gate after W_o, which only one as wide as the output can be.
void multiply_output(Layer& layer) {
  const Tensor gate = value_of(layer, Stage::gate);
  Layer without = layer;
  leave_out_gate(without);
  const Tensor output = value_of(without, Stage::output);
  if (output.count() != gate.count()) fail("another change made the output of another width");
  const GateActivation activation = layer.settings.gate_activation;
  give(layer, Stage::gated, value_of(without, Stage::gated));
  give(layer, Stage::output,
       times_gate(output, gate, [activation](double g) { return activated(activation, g); }));
}

/// W_q and W_gate as one map, of each head its queries and then its gate, split in another way:
/// `from(part, head, i)` is the column of that map which becomes number i of a head's part.
template <class From> void resplit_with_gate(Layer& layer, const From& from) {
  const std::size_t H = layer.dims.H, d = layer.dims.d_k;
  const auto split = [&](const Tensor& q, const Tensor& gate, std::size_t part) {
    if (q.empty() || gate.empty()) return part == 0 ? q : gate;
    Tensor result = Tensor::uninitialised(q.dtype(), q.shape());
    const std::size_t width = q.shape().back(), rows = q.count() / width, size = size_of(q.dtype());
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t i = 0; i < d; ++i) {
        const std::size_t column = within(from(part, h, i), 2 * H * d);
        const Tensor& source = column % (2 * d) < d ? q : gate;
        const std::size_t at = column / (2 * d) * d + column % d;
        for (std::size_t row = 0; row < rows; ++row)
          std::memcpy(result.raw_mutable() + (row * width + h * d + i) * size,
                      source.raw() + (row * width + at) * size, size);
      }
    return result;
  };
  const Tensor W_q = layer.W_q, W_gate = layer.W_gate, b_q = layer.b_q, b_gate = layer.b_gate;
  layer.W_q = split(W_q, W_gate, 0), layer.W_gate = split(W_q, W_gate, 1);
  layer.b_q = split(b_q, b_gate, 0), layer.b_gate = split(b_q, b_gate, 1);
}

void add_gate_rows(const Layer& layer, ChangeList& list) {
  const Dims& d = layer.dims;
  if (d.d_gate != d.d_k || d.d_v != d.d_k || layer.W_q.empty() || layer.W_gate.empty() ||
      layer.W_q.shape() != layer.W_gate.shape())
    return;
  const std::size_t H = d.H, width = d.d_k;
  const StageSet both{Stage::q, Stage::gate};
  list.add("gate.rows", both,
           "splits q's map in its middle: all queries, then all gates, where each head has both",
           "split each head's rows: its queries, then its gate", [H, width](Layer& edited) {
             resplit_with_gate(edited, [H, width](std::size_t part, std::size_t h, std::size_t i) {
               return part * H * width + h * width + i;
             });
           });
  list.add("gate.rows", both, "takes a head's first rows for its gate, the others for its queries",
           "take a head's first rows for its queries, the others for its gate",
           [width](Layer& edited) {
             resplit_with_gate(edited, [width](std::size_t part, std::size_t h, std::size_t i) {
               return (2 * h + 1 - part) * width + i;
             });
           });
}

void add_gate_of_heads(const Layer& layer, ChangeList& list) {
  const Dims& d = layer.dims;
  if (!has_step(layer, Stage::gated) || layer.has_given(Stage::gated)) return;
  list.add("gate.missing", of_gated, "leaves out the gate of the heads' results",
           "multiply each head's result by its gate, before W_o", leave_out_gate);
  add_gate_activations(layer, list);
  if (d.H * d.d_gate == d.d_out)
    list.add("gate.place", StageSet{Stage::gated, Stage::output},
             "multiplies the output of W_o by the gate",
             "multiply the heads' results by it, before W_o", multiply_output);
  if (layer.settings.input_norm != InputNorm::none && !layer.X.empty())
    list.add("gate.input", of_gate, "makes the gate of X, before the norm",
             "make the gate of the normed input, as the queries", [](Layer& edited) {
               Layer plain = edited;
               plain.settings.input_norm = InputNorm::none;
               clear_given(plain, {Stage::x, Stage::gate});
               give(edited, Stage::gate, value_of(plain, Stage::gate));
             });
  add_gate_rows(layer, list);
}

void add_norms_of_heads(const Layer& layer, ChangeList& list) {
  if (!layer.head_norm_weight.empty())
    list.add(
        "head_norm.missing", StageSet{Stage::head_norm}, "does not normalise the heads' results",
        "normalise them before W_o",
        [](Layer& edited) { give(edited, Stage::head_norm, value_of(edited, Stage::head_out)); });
  if (layer.v_norm_weight.empty()) return;
  list.add("v_norm.missing", StageSet{Stage::v_norm}, "does not normalise the values",
           "normalise each head's values: v / √(mean(v²) + ε)",
           [](Layer& edited) { give(edited, Stage::v_norm, value_of(edited, Stage::v)); });
  if (layer.dims.d_k != layer.dims.d_v || layer.dims.S_all != layer.dims.S) return;
  for (const Stage to : {Stage::v_norm, Stage::v}) // without their own norm, or before it
    for (const Stage from : {Stage::k_norm, Stage::k_rope})
      if (has_step(layer, from))
        list.add("v_norm.keys", StageSet{to},
                 fmt::format("takes {} for the values",
                             from == Stage::k_norm ? "the normalised keys" : "the rotated keys"),
                 "make the values of the keys before their norm, or of their own map",
                 [from, to](Layer& edited) { give(edited, to, value_of(edited, from)); });
}

/// Values without the factor that their weight has here, in their own step or after it.
void add_factors_of_values(const Layer& layer, ChangeList& list) {
  for (const ModuleResult& result : layer.results) {
    if (result.factor == 1 || result.factor == 0 || result.stages != std::vector{Stage::v})
      continue;
    for (const Stage stage : {Stage::v, Stage::head_out})
      list.add("v.factor", StageSet{stage},
               fmt::format("leaves out {} of the values", result.factor_name),
               fmt::format("multiply the values by it, {}", result.factor),
               [stage, factor = result.factor](Layer& edited) {
                 give(edited, stage, each_number(value_of(edited, stage), [factor](double number) {
                        return number / factor;
                      }));
               });
  }
}

std::vector<Change> gate_changes(const Subject& subject) {
  ChangeList list;
  add_gate_of_heads(subject.layer, list);
  add_norms_of_heads(subject.layer, list);
  add_factors_of_values(subject.layer, list);
  if (const Settings& s = subject.layer.settings; s.temperature != 0) {
    list.add_settings("temperature.missing", StageSet{Stage::scaled},
                      "leaves out the temperature of long texts",
                      fmt::format("multiply the scores at position p by 1 + {} ln(1 + ⌊(p + {}) / "
                                  "{}⌋)",
                                  s.temperature, s.temperature_offset, s.temperature_length),
                      {SettingEdit("temperature", 0)});
    const std::int64_t other = s.temperature_offset == 0 ? 1 : 0;
    list.add_settings("temperature.position", StageSet{Stage::scaled},
                      fmt::format("counts the positions of the temperature from {}", other),
                      fmt::format("count them from {}", s.temperature_offset),
                      {SettingEdit("temperature_offset", other)});
  }
  return list.take();
}

} // namespace

const Theme gate_theme{
    "gate",
    "gate.missing gate.activation gate.place gate.input gate.rows "
    "head_norm.missing v.factor v_norm.missing v_norm.keys temperature.missing "
    "temperature.position",
    gate_changes};

} // namespace mha
