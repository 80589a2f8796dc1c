#include <mha/compare/diff.hpp>

#include "support/library_input.hpp"
#include "support/sanitizers.hpp"
#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

using namespace mha;

namespace {

std::uint64_t draws(std::uint64_t many, std::uint64_t few) {
  return sanitized ? few : many;
}

using Values = std::map<std::string, reference::Array>;

/// What another implementation would have saved, in `stored`.
Reference saved(
    const Layer& layer, const Values& values, DType stored,
    const std::function<bool(Stage)>& keep = [](Stage) { return true; }) {
  Reference reference;
  const StageSet available = available_stages(layer);
  for (const StageInfo& info : stages()) {
    const auto value = values.find(std::string(info.name));
    if (value == values.end() || !contains(available, info.stage) || !keep(info.stage)) continue;
    ReferenceStage stage;
    stage.stage = info.stage;
    stage.stored = stored;
    stage.source = std::string(info.name);
    stage.value = convert(tensor_of(value->second, stored, layer.dims.batched),
                          stored == DType::f64 ? DType::f64 : DType::f32);
    if (layer.settings.columns && info.kind != Kind::row) stage.value = transposed(stage.value);
    reference.stages.push_back(std::move(stage));
  }
  return reference;
}

std::string told(const Diff& diff) {
  std::string text;
  for (const StageDiff& row : diff.stages)
    text += fmt::format("{} {} max {} rel {} wrong {}/{} own {}\n", name_of(row.stage),
                        name_of(row.status), row.difference.max_abs, row.difference.max_rel,
                        row.difference.mismatched, row.difference.count,
                        row.own ? (*row.own ? "yes" : "no") : "?");
  return text;
}

/// Every finite number of a stage moved far beyond any tolerance, each a bit differently.
void spoil(reference::Array& array) {
  for (std::size_t i = 0; i < array.values.size(); ++i)
    if (double& x = array.values[i]; std::isfinite(x))
      x += (0.3 + 0.01 * static_cast<double>(i % 7)) * (1 + std::abs(x));
}

} // namespace

TEST_CASE("an error planted in any stage is found there, and what follows is sound") {
  std::size_t planted = 0;
  for (std::uint64_t seed = 0; seed < draws(60, 12); ++seed) {
    RandomLayer random = random_layer(seed, random_variants(seed, 0, 4), false);
    const Layer layer = library_layer(random.layer, random.form);
    const Values clean = reference::compute(random.layer);
    for (const StageInfo& info : stages()) {
      const auto value = clean.find(std::string(info.name));
      if (value == clean.end() || !contains(available_stages(layer), info.stage)) continue;
      reference::Layer wrong = random.layer;
      reference::Array& array = wrong.given[std::string(info.name)] = value->second;
      spoil(array);
      if (array.values == value->second.values) continue; // nothing but −inf and NaN
      bool some = false;
      for (std::size_t i = 0; i < array.values.size(); ++i)
        some = some || array.values[i] != value->second.values[i];
      if (!some) continue;
      Values theirs = reference::compute(wrong);
      if (info.stage == Stage::head_result) // a result that nothing else was computed from
        theirs = clean, theirs[std::string(info.name)] = array;
      const Reference reference = saved(layer, theirs, DType::f64);
      const Diff found = diff(layer, reference);
      INFO("seed " << seed << ", " << info.name << ": " << random.description << "\n"
                   << told(found));
      REQUIRE(found.first == info.stage);
      for (const StageDiff& row : found.stages) {
        if (comes_before(layer, row.stage, info.stage)) CHECK(row.difference.within);
        if (row.status == DiffStatus::first) CHECK(row.own == true);
        if (row.status == DiffStatus::inherited) CHECK(row.own == false);
      }
      ++planted;
    }
  }
  CHECK(planted > draws(60, 12) * 10);
}

TEST_CASE("a second wrong step is told from those that only follow") {
  const RandomLayer random = random_layer(3, std::vector{Variant::causal, Variant::gqa}, false);
  const Layer layer = library_layer(random.layer, random.form);
  reference::Layer wrong = random.layer;
  Values values = reference::compute(wrong);
  wrong.scale *= 1.5;
  wrong.given["weights"] = reference::compute(wrong).at("weights");
  for (double& x : wrong.given["weights"].values) x *= 0.5;
  const Diff found = diff(layer, saved(layer, reference::compute(wrong), DType::f64));
  INFO(told(found));
  CHECK(found.first == Stage::scaled);
  for (const StageDiff& row : found.stages) {
    if (row.stage < Stage::scaled) CHECK(row.difference.within);
    if (row.stage == Stage::weights) {
      CHECK(row.status == DiffStatus::inherited);
      CHECK(row.own == true);
      CHECK(row.from == std::vector{Stage::exp, Stage::row_sum});
    } else if (row.stage > Stage::scaled) {
      CHECK(row.own == false);
    }
  }
}

TEST_CASE("where the reference has not all stages, the nearest ones that it has are given") {
  const RandomLayer random = random_layer(5, std::vector{Variant::rope_half}, false);
  const Layer layer = library_layer(random.layer, random.form);
  reference::Layer wrong = random.layer;
  wrong.given["q"] = reference::compute(wrong).at("q");
  spoil(wrong.given["q"]);
  const auto some = [](Stage stage) {
    return stage == Stage::q || stage == Stage::k || stage == Stage::weights ||
           stage == Stage::output;
  };
  const Diff found = diff(layer, saved(layer, reference::compute(wrong), DType::f64, some));
  INFO(told(found));
  REQUIRE(found.stages.size() == 4);
  CHECK(found.first == Stage::q);
  CHECK(found.stages[0].from.empty());
  CHECK(found.stages[1].difference.within);
  CHECK(found.stages[2].from == std::vector{Stage::q, Stage::k});
  CHECK(found.stages[2].between.front() == Stage::q_rope);
  CHECK(found.stages[2].between.back() == Stage::row_sum);
  CHECK(found.stages[2].own == false);
  CHECK(found.stages[3].from == std::vector{Stage::weights});
  CHECK(found.stages[3].own == false);
}

TEST_CASE("what agrees but for rounding is no difference") {
  for (std::uint64_t seed = 100; seed < 100 + draws(200, 20); ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 0, 4), true);
    const Layer layer = library_layer(random.layer, random.form);
    const Values values = reference::compute(random.layer);
    // A naive softmax's exponentials may be infinite in float16: a difference indeed.
    const auto is_beyond_f16 = [](const auto& stage) {
      return std::ranges::any_of(stage.second.values, [](double value) {
        return std::isfinite(value) && std::fabs(value) > 65504;
      });
    };
    const bool fits_f16 = std::ranges::none_of(values, is_beyond_f16);
    for (DType stored : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      if (stored == DType::f16 && !fits_f16) continue;
      const Diff found = diff(layer, saved(layer, values, stored));
      INFO("seed " << seed << " stored as " << name_of(stored) << ": " << random.description << "\n"
                   << told(found));
      CHECK(found.equal());
    }
  }
}

TEST_CASE("steps recomputed from a reference that was stored rounded are not called wrong") {
  for (DType stored : {DType::f32, DType::f16, DType::bf16})
    for (std::uint64_t seed = 0; seed < draws(20, 5); ++seed) {
      RandomLayer random = random_layer(seed, random_variants(seed, 0, 2), stored != DType::f32);
      const Layer layer = library_layer(random.layer, random.form);
      reference::Layer wrong = random.layer;
      wrong.given["q"] = reference::compute(wrong).at("q");
      spoil(wrong.given["q"]);
      const Diff found = diff(layer, saved(layer, reference::compute(wrong), stored));
      INFO("seed " << seed << " stored as " << name_of(stored) << ": " << random.description << "\n"
                   << told(found));
      CHECK(found.first == Stage::q);
      for (const StageDiff& row : found.stages)
        if (row.status == DiffStatus::inherited) CHECK(row.own == false);
    }
}

TEST_CASE("finite mask constants are as good as −inf, whole rows of them are not") {
  const RandomLayer random =
      random_layer(8, std::vector{Variant::causal_top_left, Variant::no_biases}, false);
  const Layer layer = library_layer(random.layer, random.form);
  Values values = reference::compute(random.layer);
  for (const char* name : {"masked", "shifted"})
    for (double& x : values.at(name).values)
      if (std::isinf(x)) x = -1e9;
  const Diff found = diff(layer, saved(layer, values, DType::f64));
  INFO(told(found));
  CHECK(found.equal());
}

TEST_CASE("tolerances: of every stage, of one, by the coarser type") {
  Tolerances tolerances;
  CHECK(tolerances.of(Stage::q, DType::bf16).relative == 1.6e-2);
  tolerances.absolute = 0.5;
  tolerances.stage_absolute[Stage::weights] = 0.25;
  tolerances.stage_relative[Stage::q] = 0.125;
  CHECK(tolerances.of(Stage::q, DType::f32).absolute == 0.5);
  CHECK(tolerances.of(Stage::q, DType::f32).relative == 0.125);
  CHECK(tolerances.of(Stage::weights, DType::f32).absolute == 0.25);
  CHECK(tolerances.of(Stage::weights, DType::f32).relative == 1.3e-6);
}

TEST_CASE("a stage that is given is what it was before, whatever its form") {
  for (std::uint64_t seed = 0; seed < draws(40, 10); ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 0, 4), true);
    const Layer layer = library_layer(random.layer, random.form);
    for (const StageInfo& info : stages()) {
      if (!contains(available_stages(layer), info.stage)) continue;
      const Tensor value = trace(layer, {info.stage}).value(info.stage);
      const Layer given = with_given(layer, info.stage, value);
      INFO("seed " << seed << ", " << info.name << ": " << random.description);
      const Tensor again = trace(given, {info.stage}).value(info.stage);
      CHECK(mha::compare(layer, info.stage, again, value, {}).same_bits);
    }
  }
}

TEST_CASE("two dumps are compared without weights: what lies between given stages is not guessed") {
  const RandomLayer random =
      random_layer(11, std::vector{Variant::causal, Variant::scale_number}, false);
  const Layer whole = library_layer(random.layer, random.form);
  const Values values = reference::compute(random.layer);
  NamedTensors parts;
  for (const char* name : {"q", "k", "weights", "v", "head_out"})
    parts[name] = {tensor_of(values.at(name), DType::f64, whole.dims.batched), name, true};
  Settings settings;
  const Layer dump = make_layer(parts, settings);
  const Diff found =
      diff(dump, saved(whole, values, DType::f64, [](Stage stage) {
             return stage != Stage::x && stage != Stage::output && stage != Stage::head_result;
           }));
  INFO(told(found));
  CHECK(found.equal());
  CHECK(found.not_compared == std::vector<std::string>{"scores", "scaled", "masked", "row_max",
                                                       "shifted", "exp", "row_sum", "logsumexp"});
  std::vector<Stage> compared;
  for (const StageDiff& row : found.stages) compared.push_back(row.stage);
  CHECK(compared ==
        std::vector{Stage::q, Stage::k, Stage::v, Stage::weights, Stage::head_out, Stage::concat});
}
