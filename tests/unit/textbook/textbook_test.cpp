// The program's stages against the textbook's (<mha/textbook.hpp>), and the textbook's against
// implementations that make a mistake. What it computes is read through `diff`'s reference, so that
// xtensor stays in the library's one file.

#include "support/compare.hpp"
#include "support/library_input.hpp"
#include "support/planted.hpp"
#include "support/sanitizers.hpp"
#include <mha/compare/layer_reference.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <algorithm>

using namespace mha;

namespace {

Reference textbook_of(const Layer& layer) {
  LoadedLayer loaded;
  loaded.layer = layer;
  Effort effort;
  return textbook_reference(loaded, effort);
}

/// "" where every stage of the program is within rounding of the textbook's.
std::string first_difference(const RandomLayer& random) {
  const Layer layer = library_layer(random.layer, random.form);
  const Reference textbook = textbook_of(layer);
  std::vector<Stage> stages;
  for (const Stage stage : available_stages(layer))
    if (!layer.has_given(stage)) stages.push_back(stage);
  if (textbook.stages.size() != stages.size()) return "not every stage is there";
  const Trace program = trace(layer, stages);
  const auto size_of_map = [&](Stage stage) {
    const ReferenceStage* found = textbook.find(stage);
    return found ? magnitude(found->value) : 0;
  };
  const double logits = std::max(size_of_map(Stage::scaled), size_of_map(Stage::masked));
  for (const ReferenceStage& one : textbook.stages) {
    const double bound = rounding_bound(random, logits, magnitude(one.value));
    const std::string difference = compare(program.value(one.stage), one.value, bound);
    if (!difference.empty()) return fmt::format("{}: {}", name_of(one.stage), difference);
  }
  return "";
}

void require_same(const RandomLayer& random) {
  INFO(random.description << (random.form.single ? " float32" : " float64"));
  std::string difference;
  try {
    difference = first_difference(random);
  } catch (const std::exception& error) {
    difference = error.what();
  }
  CHECK(difference == "");
}

/// The first stage, in the order of the computation, in which the textbook and another
/// implementation differ by more than rounding; "": they do not.
std::string first_seen(const Layer& layer, const planted::Stages& theirs) {
  Reference textbook = textbook_of(layer);
  std::ranges::stable_sort(textbook.stages, [&](const auto& a, const auto& b) {
    return comes_before(layer, a.stage, b.stage);
  });
  for (const ReferenceStage& one : textbook.stages) {
    const std::string name(name_of(one.stage));
    const auto other = theirs.find(name);
    if (other == theirs.end()) continue;
    const Tensor value = tensor_of(other->second, DType::f64, layer.dims.batched);
    if (!compare(value, one.value, 1e-9 * (1 + magnitude(one.value))).empty()) return name;
  }
  return "";
}

} // namespace

TEST_CASE("each variant alone is within rounding of the textbook") {
  for (std::size_t i = 0; i < variant_count; ++i) {
    const Variant variant = static_cast<Variant>(i);
    for (std::uint64_t seed = 0; seed < 4; ++seed)
      require_same(random_layer(1000 * i + seed, {&variant, 1}, seed % 2 == 1));
  }
}

TEST_CASE("random layers in both precisions are within rounding of the textbook") {
  for (std::uint64_t seed = 0; seed < (sanitized ? 30 : 400); ++seed) {
    const std::vector<Variant> variants = random_variants(seed, 2, 6);
    require_same(random_layer(seed, variants, false));
    require_same(random_layer(seed, variants, true));
  }
}

TEST_CASE("the textbook starts from a stage that is given, as the program does") {
  for (std::uint64_t seed = 0; seed < (sanitized ? 10 : 100); ++seed) {
    RandomLayer random = random_layer(seed, random_variants(seed + 90000, 1, 4), seed % 2 == 1);
    const std::map<std::string, reference::Array> stages = reference::compute(random.layer);
    auto chosen = stages.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(seed % stages.size()));
    if (chosen->first == "head_result") continue; // the program has that as an edit
    reference::Array patched = chosen->second;
    for (double& value : patched.values) value = static_cast<float>(value * 1.25 + 0.125);
    random.layer.given[chosen->first] = patched;
    random.description += " given " + chosen->first;
    require_same(random);
  }
}

TEST_CASE("numbers that are none spread in the textbook as in the program") {
  for (std::uint64_t seed = 0; seed < (sanitized ? 10 : 100); ++seed) {
    RandomLayer random = random_layer(seed, random_variants(seed + 50000, 0, 4), seed % 2 == 1);
    Random choice(seed);
    reference::Array& X = random.layer.X;
    X.values[choice.count(0, X.values.size() - 1)] =
        choice.chance(0.5) ? std::nan("") : std::numeric_limits<double>::infinity();
    random.description += " not finite in X";
    require_same(random);
  }
}

TEST_CASE("every planted mistake is seen beside the textbook, at the stage that it makes wrong") {
  for (const planted::Mistake& mistake : planted::mistakes()) {
    std::size_t layers = 0;
    for (const bool single : {false, true})
      for (planted::Base& base : planted::bases(3, single)) {
        Random random(5);
        if (!mistake.prepare(base.layer, random)) continue;
        const Layer layer = library_layer(base.layer, base.form);
        planted::Implementation other{base.layer, {}, {}};
        INFO(mistake.id << " on " << base.name << (single ? " float32" : " float64"));
        CHECK(first_seen(layer, other.run()).empty()); // before it is made
        mistake.plant(other);
        // Without norms the next step that is there, too, shows it first.
        const bool norms =
            std::string(mistake.id) == "norm.missing" && layer.settings.rope != Rope::none;
        const std::string seen = first_seen(layer, other.run());
        CHECK_FALSE(seen.empty());
        if (*mistake.stage != '\0') CHECK(seen == (norms ? "q_rope" : mistake.stage));
        ++layers;
      }
    INFO(mistake.id << " is planted in no layer");
    CHECK(layers > 0);
  }
}

TEST_CASE("what the textbook does not have it refuses by name") {
  const RandomLayer random = random_layer(1, {}, false);
  Layer layer = library_layer(random.layer, random.form);
  layer.lengths = std::vector<std::size_t>(layer.dims.B, 1);
  CHECK_THROWS_WITH(textbook_of(layer),
                    Catch::Contains("does not compute texts of several lengths"));
  layer.lengths.clear();
  layer.patches.stages.add(Stage::weights);
  CHECK_THROWS_WITH(textbook_of(layer),
                    Catch::Contains("patch weights: the textbook has no edits"));
}
