#include "support/compare.hpp"
#include "support/library_input.hpp"
#include "support/random_layer.hpp"
#include <mha/layer/graph.hpp>
#include <mha/load/edit.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cmath>

// Patches of lone layers: what a stage holds changes, and what is computed from it.

using namespace mha;

namespace {

std::vector<Stage> stages_of(const Layer& layer) {
  std::vector<Stage> list;
  const StageSet available = available_stages(layer);
  for (const StageInfo& info : stages())
    if (contains(available, info.stage) && !layer.has_given(info.stage)) list.push_back(info.stage);
  return list;
}

Layer patched(Layer layer, const std::string& text, const UnpatchedStage& unpatched = nullptr) {
  layer.patches.add(patch_of(parse_edit(text), layer, 0, unpatched));
  return layer;
}

Tensor with_batch(const Layer& layer, const Tensor& value) {
  Shape shape = value.shape();
  if (!layer.dims.batched) shape.insert(shape.begin(), 1);
  return value.reshaped(shape);
}

/// The layer with a stage patched by its own values.
Layer patched_by_own(const Layer& layer, Stage stage) {
  return patched(layer, fmt::format("{} = from ids 0", name_of(stage)),
                 [&](Stage asked, const std::string&) {
                   return with_batch(layer, trace(layer, {asked}).value(asked));
                 });
}

Tensor value_of(const Layer& layer, Stage stage, std::size_t threads = 1) {
  return trace(layer, {stage}, {}, threads).value(stage);
}

/// Whether a stage is computed from another, itself included.
bool reads(const Layer& layer, Stage stage, Stage from) {
  if (stage == from) return true;
  for (Stage input : inputs_of(layer, stage))
    if (reads(layer, input, from)) return true;
  return false;
}

/// (H·d_v + H) · ε · (|concat| |W_o| + |b_o|), for each number of the output.
void check_near_output(const Layer& layer, const Tensor& found, const Tensor& expected) {
  const Tensor concat = value_of(layer, Stage::concat);
  const Dims& d = layer.dims;
  const double epsilon = layer.dtype == DType::f64 ? 2.3e-16 : 1.2e-7;
  const std::size_t width = d.H * d.d_v;
  for (std::size_t i = 0; i < found.count(); ++i) {
    const std::size_t row = i / d.d_out, column = i % d.d_out;
    double bound = layer.b_o.empty() ? 0 : std::abs(value_at(layer.b_o, column));
    for (std::size_t j = 0; j < width; ++j)
      bound += std::abs(value_at(concat, row * width + j)) *
               (layer.W_o.empty() ? (j == column ? 1 : 0)
                                  : std::abs(value_at(layer.W_o, j * d.d_out + column)));
    const double want = value_at(expected, i), have = value_at(found, i);
    if (std::isfinite(want) || std::isfinite(have))
      CHECK(std::abs(want - have) <= static_cast<double>(width + d.H) * epsilon * bound);
  }
}

Layer drawn_layer(std::uint64_t seed, const Limits& limits = {}) {
  RandomLayer drawn = random_layer(seed, random_variants(seed, 0, 4), seed % 2 == 0, limits);
  drawn.form.columns = false;
  return library_layer(drawn.layer, drawn.form);
}

} // namespace

TEST_CASE("a stage patched with its own values changes no bit, but for head_result") {
  std::size_t patches = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Layer layer = drawn_layer(seed);
    if (layer.settings.columns) continue;
    const std::vector<Stage> stages = stages_of(layer);
    for (Stage stage : stages) {
      const Layer own = patched_by_own(layer, stage);
      for (Stage result : stages) {
        if (!reads(own, result, stage)) continue;
        INFO(seed << ": " << name_of(stage) << " seen in " << name_of(result));
        ++patches;
        if (stage == Stage::head_result && result >= Stage::output)
          result == Stage::output
              ? check_near_output(layer, value_of(own, result), value_of(layer, result))
              : void();
        else
          CHECK(compare_bits(value_of(own, result), value_of(layer, result)) == "");
      }
    }
  }
  CHECK(patches > 2000);
}

TEST_CASE("a zero in head_result and one in head_out give the same output") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Layer layer = drawn_layer(seed);
    if (layer.settings.columns || !contains(available_stages(layer), Stage::output)) continue;
    INFO(seed);
    const std::string last_step(name_of(last_of_heads(layer)));
    const Tensor without = value_of(patched(layer, last_step + "[0] = zero"), Stage::output);
    for (const std::size_t threads : {std::size_t{1}, std::size_t{3}})
      CHECK(compare_bits(value_of(patched(layer, "head_result[0] = zero"), Stage::output, threads),
                         without) == "");
    if (layer.dims.T > 1) {
      const std::string last = fmt::format("[*,{}] = zero", layer.dims.T - 1);
      CHECK(compare_bits(value_of(patched(layer, "head_result" + last), Stage::output),
                         value_of(patched(layer, last_step + last), Stage::output)) == "");
    }
  }
}

TEST_CASE("a given head_result is what the output is made of") {
  const Layer layer = drawn_layer(3);
  Tensor zeros(layer.dtype, layer.shape_of(Stage::head_result));
  CHECK(compare_bits(value_of(layer.with("head_result", zeros), Stage::output),
                     value_of(patched(layer, "head_out = 0"), Stage::output)) == "");
}

TEST_CASE("concat and head_out are one value") {
  const Layer layer = drawn_layer(8);
  const std::string column = fmt::format("{}", layer.dims.d_v); // the first of head 1
  REQUIRE(layer.dims.H > 1);
  const Layer by_concat = patched(layer, "concat[*,*," + column + "] += 1"),
              by_head = patched(layer, "head_out[1,*,0] += 1");
  for (Stage stage : {Stage::head_out, Stage::head_result, Stage::concat, Stage::output})
    CHECK(compare_bits(value_of(by_concat, stage), value_of(by_head, stage)) == "");
  CHECK(compare_bits(value_of(by_head, Stage::output), value_of(layer, Stage::output)) != "");
}

TEST_CASE("1100 tokens: weights on keys that the mask hides, and rows before a patched one") {
  Limits limits;
  limits.tokens = 9;
  for (const auto& variants : {std::vector{Variant::causal},
                               {Variant::causal, Variant::window_left},
                               {Variant::padding, Variant::causal}}) {
    RandomLayer drawn = random_layer(5, variants, true, limits);
    NamedTensors parts;
    const std::size_t T = 1100, d = 6;
    std::mt19937 rng(7);
    std::normal_distribution<float> normal;
    const auto tensor = [&](const Shape& shape) {
      Tensor made(DType::f32, shape);
      for (float& x : made.as_mutable<float>()) x = normal(rng);
      return made;
    };
    parts["X"] = {tensor({T, d}), "X"};
    for (const char* name : {"W_q", "W_k", "W_v"}) parts[name] = {tensor({d, 8}), name};
    parts["W_o"] = {tensor({8, d}), "W_o"};
    Settings settings;
    set(settings, "num_heads", "2", "test"), set(settings, "causal", "true", "test");
    if (variants.size() == 2 && variants[1] == Variant::window_left)
      set(settings, "window_left", "100", "test");
    const Layer layer = make_layer(parts, settings);
    const Layer future = patched(layer, "weights[1,700,1050] = 0.5");
    Tensor whole = value_of(layer, Stage::weights);
    Tensor changed = Tensor::uninitialised(DType::f32, whole.shape());
    std::copy_n(whole.raw(), whole.bytes(), changed.raw_mutable());
    changed.as_mutable<float>()[(T + 700) * T + 1050] = 0.5F;
    CHECK(compare_bits(value_of(future, Stage::weights, 2), changed) == "");
    CHECK(compare_bits(value_of(future, Stage::output, 2),
                       value_of(layer.with("weights", changed), Stage::output)) == "");
    // Rows before the patched one keep their bits.
    const Tensor before = value_of(layer, Stage::output), after = value_of(future, Stage::output);
    CHECK(std::equal(before.raw(), before.raw() + 700 * d * 4, after.raw()));
    CHECK(!std::equal(before.raw() + 700 * d * 4, before.raw() + 701 * d * 4,
                      after.raw() + 700 * d * 4));
    CHECK(std::equal(before.raw() + 701 * d * 4, before.raw() + before.bytes(),
                     after.raw() + 701 * d * 4));
    for (const char* own : {"masked", "shifted", "exp", "weights", "scores", "row_sum"})
      CHECK(compare_bits(value_of(patched_by_own(layer, stage_named(own)), Stage::output),
                         before) == "");
  }
}

TEST_CASE("what is no patch is refused, with what is expected") {
  const Layer layer = drawn_layer(8);
  for (const auto& [text, expected] : {
           std::pair("weights", "PLACE = VALUE expected"),
           {"= 3", "PLACE = VALUE expected"},
           {"weights =", "PLACE = VALUE expected"},
           {"weigths = 0", "did you mean 'weights'"},
           {"weights[99] = 0", "heads"},
           {"weights[0,0,0,0] = 0", "three axes: [heads,tokens,columns]"},
           {"row_max[0,0,0] = 0", "two axes: [heads,tokens]"},
           {"output[2] = 0", "first axis is *: output[*,2]"},
           {"weights[0 = 0", "expected"},
           {"weights[[0,] = 0", "expected"},
           {"weights[,] = 0", "an axis is empty"},
           {"weights[2:2] = 0", "selects nothing"},
           {"weights = nothing.npy", "no such file"},
           {"weights = mean", "for stages of tokens"},
           {"mlp_out = 0", "has no mlp_out"},
           {"layers.x.weights = 0", "is not a layer"},
           {"layers.3-1.weights = 0", "A-B expected"},
           {"weights[0,'the'] = 0", "no token 'the'"},
       }) {
    INFO(text);
    CHECK_THROWS_WITH(patched(layer, text), Catch::Contains(expected));
  }
}
