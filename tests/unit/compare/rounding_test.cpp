#include <mha/compare/rounding.hpp>

#include "support/library_input.hpp"
#include <mha/compare/compare.hpp>
#include <mha/compare/diff.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

using namespace mha;

namespace {

Layer layer_of(std::uint64_t seed) {
  const RandomLayer random = random_layer(seed, std::vector{Variant::causal, Variant::gqa}, false);
  return library_layer(random.layer, random.form);
}

ReferenceStage stage_of(const Layer& layer, Stage stage, DType stored) {
  ReferenceStage one;
  one.stage = stage, one.stored = stored, one.source = std::string(name_of(stage));
  one.value = convert(convert(trace(layer, {stage}).value(stage), stored), DType::f32);
  return one;
}

/// Every number of a stage times 1 + by, by a little more or less.
void move(ReferenceStage& stage, double by) {
  Tensor moved = convert(stage.value, DType::f32);
  Tensor copy = Tensor::uninitialised(DType::f32, moved.shape());
  for (std::size_t i = 0; i < copy.count(); ++i)
    copy.as_mutable<float>()[i] =
        static_cast<float>(value_at(moved, i) * (1 + by * (i % 2 == 0 ? 1 : -1)));
  stage.value = copy;
}

} // namespace

TEST_CASE("rounding: what numbers are allowed is of the type's size, and shrinks with the type") {
  const Layer layer = layer_of(3);
  for (Stage stage : {Stage::q, Stage::weights, Stage::head_out, Stage::output}) {
    const Tensor ours = trace(layer, {stage}).value(stage);
    const auto largest = [&](DType stored) {
      const auto found = ShownRoundingJudge(layer, {.kept = stored}, 1)
                             .judge(stage_of(layer, stage, stored), ours);
      REQUIRE(found);
      CHECK(found->within);
      CHECK(found->farthest <= 1);
      CHECK(found->allowed.shape() == ours.shape());
      return *std::ranges::max_element(found->allowed.as<float>());
    };
    double size = 0;
    for (std::size_t i = 0; i < ours.count(); ++i)
      size = std::max(size, std::fabs(value_at(ours, i)));
    INFO(name_of(stage));
    CHECK(largest(DType::bf16) > 0x1p-9 * size);
    CHECK(largest(DType::bf16) < 0x1p-2 * size);
    CHECK(largest(DType::f16) < largest(DType::bf16) / 4);
    CHECK(largest(DType::f32) < largest(DType::f16) / 1000);
  }
}

TEST_CASE("rounding: each number of each stage is judged by itself") {
  for (std::uint64_t seed = 40; seed < 60; ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 0, 4), false);
    const Layer layer = library_layer(random.layer, random.form);
    const DType stored = std::array{DType::f32, DType::f16, DType::bf16}[seed % 3];
    const StageSet available = available_stages(layer);
    for (const StageInfo& info : stages()) {
      if (!contains(available, info.stage)) continue;
      const Tensor ours = trace(layer, {info.stage}).value(info.stage);
      ReferenceStage theirs = stage_of(layer, info.stage, stored);
      const RoundedSteps steps{.kept = coarser_of(layer.dtype, stored)};
      const auto right = ShownRoundingJudge(layer, steps, 1).judge(theirs, ours);
      INFO("seed " << seed << ", " << info.name << ": " << random.description);
      REQUIRE(right);
      CHECK(right->within);
      // The smallest of the numbers that are not 0, by more than it may be.
      const auto allowed = right->allowed.as<float>();
      std::size_t at = ours.count();
      for (std::size_t i = 0; i < ours.count(); ++i)
        if (const double a = std::fabs(value_at(ours, i)); std::isfinite(a) && a > 0 && a < 1e3)
          if (at == ours.count() || a < std::fabs(value_at(ours, at))) at = i;
      if (at == ours.count()) continue;
      theirs.value = Tensor::of<double>(theirs.value.shape(), values_in_double(theirs.value));
      theirs.value.as_mutable<double>()[at] =
          value_at(ours, at) + 3 * static_cast<double>(allowed[at]) + 1e-30;
      CHECK_FALSE(ShownRoundingJudge(layer, steps, 1).judge(theirs, ours)->within);
    }
  }
}

TEST_CASE("rounding: stages that share a chain are judged as each is by itself") {
  for (std::uint64_t seed = 60; seed < 72; ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 0, 4), false);
    const Layer layer = library_layer(random.layer, random.form);
    const DType stored = std::array{DType::f32, DType::f16, DType::bf16}[seed % 3];
    const StageSet available = available_stages(layer);
    const RoundedSteps steps{.kept = coarser_of(layer.dtype, stored)};
    ShownRoundingJudge forward(layer, steps, 1), backward(layer, steps, 2);
    std::vector<Stage> order;
    for (const StageInfo& info : stages())
      if (contains(available, info.stage)) order.push_back(info.stage);
    const auto judged = [&](ShownRoundingJudge& judge, Stage stage) {
      ReferenceStage theirs = stage_of(layer, stage, stored);
      move(theirs, seed % 2 == 0 ? 1e-3 : 1e-7);
      const auto found = judge.judge(theirs, trace(layer, {stage}).value(stage));
      REQUIRE(found);
      std::vector<std::pair<double, double>> rows;
      for (const RoundedRow& row : found->rows) rows.emplace_back(row.error, row.expected);
      return std::tuple(found->within, found->farthest, rows, values_in_double(found->allowed));
    };
    std::map<Stage, decltype(judged(forward, Stage::q))> first;
    for (const Stage stage : order) first.emplace(stage, judged(forward, stage));
    for (auto stage = order.rbegin(); stage != order.rend(); ++stage) {
      INFO("seed " << seed << ", " << name_of(*stage) << ": " << random.description);
      ShownRoundingJudge own(layer, steps, 1);
      CHECK(judged(own, *stage) == first.at(*stage));
      CHECK(judged(backward, *stage) == first.at(*stage));
    }
  }
}

TEST_CASE("rounding: what is far is beyond what is allowed, and nothing that is allowed is far") {
  std::size_t seen = 0, far = 0;
  for (std::uint64_t seed = 80; seed < 100; ++seed) {
    const RandomLayer random = random_layer(seed, random_variants(seed, 0, 4), false);
    const Layer layer = library_layer(random.layer, random.form);
    ShownRoundingJudge judge(layer, {.kept = layer.dtype}, 1);
    for (const Stage stage : {Stage::q, Stage::masked, Stage::weights, Stage::output}) {
      if (!contains(available_stages(layer), stage)) continue;
      const Tensor ours = trace(layer, {stage}).value(stage);
      const GrownRounding grown{ours, ours};
      for (const double by : {0.0, 1e-7, 1e-6, 1e-4, 1e-2}) {
        ReferenceStage theirs = stage_of(layer, stage, layer.dtype);
        if (by > 0) move(theirs, by);
        const Tolerance tolerance = default_tolerance(layer.dtype);
        const auto verdict = judge.judge(theirs, ours, &grown);
        REQUIRE(verdict);
        ++seen;
        const bool is_far = judge.is_far(theirs, ours, grown, tolerance);
        if (by == 0) CHECK_FALSE(is_far);
        if (!is_far) continue;
        ++far;
        INFO("seed " << seed << ", " << name_of(stage) << " by " << by);
        CHECK_FALSE(verdict->within);
        CHECK_FALSE(
            compare(layer, stage, ours, theirs.value, tolerance, theirs.stored, verdict->allowed)
                .within);
      }
    }
  }
  CHECK(far > seen / 10);
}

TEST_CASE(
    "rounding: a step off by rounding is not the first where a later one is off by far more") {
  const Layer layer = layer_of(4);
  Reference reference;
  for (Stage stage : {Stage::x, Stage::q, Stage::k, Stage::v, Stage::scores, Stage::scaled,
                      Stage::masked, Stage::weights})
    reference.stages.push_back(stage_of(layer, stage, DType::bf16));
  CHECK(diff(layer, reference).equal());
  const auto q = reference.stages.begin() + 1, weights = reference.stages.begin() + 7;
  move(*q, 0.018); // more than the type rounds by, and of its size
  CHECK(diff(layer, reference).first != Stage::weights);
  move(*weights, 7);
  const Diff found = diff(layer, reference);
  CHECK(found.first == Stage::weights);
  for (const StageDiff& row : found.stages)
    if (row.stage < Stage::weights) CHECK(row.status != DiffStatus::first);
}

TEST_CASE("rounding: a tolerance that was asked for is not widened") {
  const Layer layer = layer_of(5);
  Reference reference;
  reference.stages.push_back(stage_of(layer, Stage::output, DType::bf16));
  move(reference.stages[0], 0.03);
  Tolerances tolerances;
  tolerances.relative = 1e-3;
  CHECK_FALSE(diff(layer, reference, tolerances).equal());
  CHECK(diff(layer, reference, tolerances).stages[0].rounding == 0);
}
