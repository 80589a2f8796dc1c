#include <mha/compare/rounding.hpp>

#include "support/library_input.hpp"
#include <mha/compare/diff.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cmath>

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

TEST_CASE(
    "rounding: errors are of the type's size, grow along the chain, and shrink with the type") {
  const Layer layer = layer_of(3);
  const std::vector<Stage> stages{Stage::q, Stage::output};
  const auto bf16 = rounding_errors(layer, stages, DType::bf16, 1),
             f16 = rounding_errors(layer, stages, DType::f16, 1);
  REQUIRE(bf16.size() == 2);
  REQUIRE(f16.size() == 2);
  for (Stage stage : stages) {
    const double unit = root_mean_square(trace(layer, {stage}).value(stage));
    INFO(name_of(stage));
    CHECK(bf16.at(stage) > 0x1p-11 * unit);
    CHECK(bf16.at(stage) < 0x1p-3 * unit);
    CHECK(f16.at(stage) < bf16.at(stage) / 2);
  }
  CHECK(rounding_errors(layer, {Stage::q_rope}, DType::bf16, 1).empty()); // there is none
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
  move(*q, 0.02); // more than the type rounds by, and of its size
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
