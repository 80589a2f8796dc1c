// References in the shapes that people save them in: each is read as what it is, and a wrong number
// in it is found.

#include "support/run.hpp"
#include <mha/compare/diff.hpp>
#include <mha/compare/settle.hpp>
#include <mha/compare/verdict.hpp>
#include <mha/load/assemble.hpp>
#include <mha/observe/trace.hpp>
#include <mha/tensor/parts.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <cmath>

using namespace mha;
using Catch::Contains;

namespace {

Tensor wave(const Shape& shape, double step) {
  Tensor tensor(DType::f64, shape);
  double value = step;
  for (double& x : tensor.as_mutable<double>()) x = std::fmod(value += step, 2.0) - 1;
  return tensor;
}

struct Sizes {
  std::size_t B = 2, H = 4, H_kv = 2, T = 3, S = 5, d = 6;
  bool batched = true, W_o = false;
};

/// q, k and v of different sizes, and W_o where that is asked for.
Layer layer_of(const Sizes& sizes = {}) {
  NamedTensors parts;
  double step = 0.31;
  const auto put = [&](const char* name, Shape shape, bool of_batch = true) {
    if (of_batch && sizes.batched) shape.insert(shape.begin(), sizes.B);
    parts[name] = {wave(shape, step += 0.06), name, of_batch};
  };
  put("q", {sizes.H, sizes.T, sizes.d});
  put("k", {sizes.H_kv, sizes.S, sizes.d}), put("v", {sizes.H_kv, sizes.S, sizes.d});
  if (sizes.W_o) put("W_o", {sizes.H * sizes.d, 9}, false);
  return make_layer(std::move(parts), {});
}

std::string object(const std::string& name, const Tensor& tensor) {
  std::string numbers;
  for (std::size_t i = 0; i < tensor.count(); ++i)
    numbers += fmt::format("{}{}", i == 0 ? "" : ",", value_at(tensor, i));
  return fmt::format(R"({{"{}": {{"shape": [{}], "dtype": "float64", "data": [{}]}}}})", name,
                     fmt::join(tensor.shape(), ","), numbers);
}

/// How a tensor of this name compares, as a file and as a binding.
struct Outcome {
  Diff found;
  Reference reference;
};

std::unique_ptr<Outcome> outcome(const Layer& layer, const std::string& name, const Tensor& saved,
                                 bool bound) {
  const test::Folder folder;
  const std::string path = folder.write("ref.json", object(name, saved));
  auto made = std::make_unique<Outcome>();
  made->reference = read_reference(layer, {bound ? name + "=" + path : path}, "");
  settle(layer, made->reference);
  made->found = diff(layer, made->reference);
  return made;
}

Tensor with_one_wrong(const Tensor& tensor, std::size_t i) {
  Tensor wrong = copy_of(view_of(tensor));
  wrong.as_mutable<double>()[i] += 0.01;
  return wrong;
}

/// Read as `stage`, reported by `note`; a wrong number is found.
void check_reading(const Layer& layer, const std::string& name, const Tensor& saved, Stage stage,
                   const std::string& note) {
  for (const bool bound : {false, true}) {
    INFO(name << " " << to_string(saved.shape()) << (bound ? ", bound" : ", in a file"));
    const auto right = outcome(layer, name, saved, bound);
    REQUIRE(right->found.stages.size() == 1);
    CHECK(right->found.stages[0].stage == stage);
    CHECK(right->found.equal());
    std::string notes;
    for (const std::string& one : right->reference.notes) notes += one + "\n";
    CHECK_THAT(notes, Contains(note));
    const auto wrong = outcome(layer, name, with_one_wrong(saved, saved.count() / 2), bound);
    REQUIRE(wrong->found.stages.size() == 1);
    CHECK_FALSE(wrong->found.equal());
  }
}

Tensor stage_of(const Layer& layer, Stage stage) {
  return trace(layer, {stage}).value(stage);
}

Tensor mean_over_heads(const Tensor& weights, std::size_t axis) {
  Shape shape = weights.shape();
  const std::size_t H = shape[axis], map = shape[axis + 1] * shape[axis + 2];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  Tensor mean(DType::f64, shape);
  const auto to = mean.as_mutable<double>();
  for (std::size_t i = 0; i < weights.count(); ++i)
    to[i / (H * map) * map + i % map] += value_at(weights, i) / static_cast<double>(H);
  return mean;
}

} // namespace

TEST_CASE("an output of head width is what the heads give, in either order, by any name") {
  for (const bool W_o : {false, true}) {
    const Layer layer = layer_of({.W_o = W_o});
    const Tensor heads = stage_of(layer, Stage::head_out);
    for (const char* name : {"out", "o", "y", "attn_out", "output", "block.0.attn.out"}) {
      const std::string plain(name);
      if (plain.find('.') != std::string::npos) continue;
      check_reading(layer, plain, heads, Stage::head_out, "of head width: head_out");
      check_reading(layer, plain, permuted(heads, {0, 2, 1, 3}), Stage::head_out, "read as BTHD");
    }
  }
  const Layer one = layer_of({.B = 1, .batched = false});
  const Tensor heads = stage_of(one, Stage::head_out);
  check_reading(one, "out", permuted(heads, {1, 0, 2}), Stage::head_out, "read as BTHD");
  check_reading(one, "out", permuted(heads, {1, 0, 2}).reshaped({1, 3, 4, 6}), Stage::head_out,
                "read as BTHD");
  const Layer merged = layer_of();
  check_reading(merged, "out", stage_of(merged, Stage::head_out).reshaped({8, 3, 6}),
                Stage::head_out, "read as (BH)TD");
}

TEST_CASE("an output whose heads and tokens are as many is read as the numbers say, or asks") {
  const Layer layer = layer_of({.H = 4, .T = 4});
  const Tensor heads = stage_of(layer, Stage::head_out);
  for (const Tensor& saved : {heads, permuted(heads, {0, 2, 1, 3})})
    CHECK(outcome(layer, "out", saved, true)->found.equal());
  const auto open = outcome(layer, "out", wave(heads.shape(), 0.77), true);
  CHECK_FALSE(open->found.equal());
  CHECK(open->reference.stages[0].doubtful);
}

TEST_CASE("an output bound with axes of heads is what the heads give, beside W_o, too") {
  NamedTensors parts; // H · d as wide as the output
  for (const char* name : {"q", "k", "v"}) parts[name] = {wave({2, 4, 3, 5}, 0.37), name, true};
  parts["W_o"] = {wave({20, 20}, 0.53), "W_o"};
  const Layer layer = make_layer(std::move(parts), {});
  const test::Folder folder;
  const std::string path = folder.write(
      "ref.json", object("out", permuted(stage_of(layer, Stage::head_out), {0, 2, 1, 3})));
  const Reference reference = read_reference(layer, {"out=" + path + "@BTHD"}, "");
  REQUIRE(reference.stages.size() == 1);
  CHECK(reference.stages[0].stage == Stage::head_out);
  CHECK(diff(layer, reference).equal());
}

TEST_CASE("weights without an axis of heads are those of the only head, or the heads' mean") {
  const Layer single = layer_of({.H = 1, .H_kv = 1});
  const Tensor map = stage_of(single, Stage::weights);
  check_reading(single, "weights", map.reshaped({2, 3, 5}), Stage::weights, "");
  check_reading(single, "attn_weights", map.reshaped({2, 3, 5}), Stage::weights, "");
  const Layer alone = layer_of({.B = 1, .H = 1, .H_kv = 1, .batched = false});
  for (const Stage stage : {Stage::scores, Stage::masked, Stage::weights, Stage::exp})
    check_reading(alone, std::string(name_of(stage)), stage_of(alone, stage).reshaped({3, 5}),
                  stage, "");
  check_reading(alone, "lse", stage_of(alone, Stage::logsumexp).reshaped({3}), Stage::logsumexp,
                "");

  const Layer batch = layer_of();
  const Tensor mean = mean_over_heads(stage_of(batch, Stage::weights), 1);
  for (const char* name : {"weights", "attn_output_weights", "attn_weights", "attention_weights"})
    check_reading(batch, name, mean, Stage::weights, "the mean over the heads");
  check_reading(batch, "weights", mean.reshaped({2, 1, 3, 5}), Stage::weights,
                "the mean over the heads");
  const Layer item = layer_of({.B = 1, .batched = false});
  const Tensor one = mean_over_heads(stage_of(item, Stage::weights), 0);
  check_reading(item, "weights", one, Stage::weights, "the mean over the heads");
  check_reading(item, "weights", one.reshaped({1, 3, 5}), Stage::weights,
                "the mean over the heads");
  const Layer lone = layer_of({.B = 1});
  check_reading(lone, "weights",
                mean_over_heads(stage_of(lone, Stage::weights), 1).reshaped({3, 5}), Stage::weights,
                "the mean over the heads");
}

TEST_CASE("a stage without its axis of heads is one head's, and which is said") {
  const Layer batch = layer_of(), item = layer_of({.B = 1, .batched = false});
  for (const Stage stage :
       {Stage::q, Stage::k, Stage::v, Stage::scores, Stage::scaled, Stage::masked, Stage::row_max,
        Stage::exp, Stage::row_sum, Stage::logsumexp, Stage::weights, Stage::head_out})
    for (const Layer* layer : {&batch, &item}) {
      const Tensor value = stage_of(*layer, stage);
      const std::size_t heads = layer == &batch ? 1 : 0;
      Shape shape = value.shape();
      const std::size_t H = shape[heads];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(heads));
      for (std::size_t head = 0; head < H; ++head) {
        const Tensor one = part_of_axis(value, heads, head, 1).reshaped(shape);
        const std::string whose = fmt::format("head {} alone", head);
        check_reading(*layer, std::string(name_of(stage)), one, stage, whose);
        const auto wrong = outcome(*layer, std::string(name_of(stage)),
                                   with_one_wrong(one, one.count() - 1), true);
        CHECK_THAT(wrong->reference.notes.at(0), Contains(whose + ", to which it is nearer than"));
        const std::vector<Region>& regions = wrong->found.stages[0].difference.regions.list;
        REQUIRE(regions.size() == 1);
        CHECK(regions[0].heads == IndexRanges{{head, head}});
      }
    }
}

TEST_CASE("one head's map that is no head's differs from the nearest, the mean or a head") {
  const Layer layer = layer_of({.B = 1, .batched = false});
  const Tensor weights = stage_of(layer, Stage::weights), mean = mean_over_heads(weights, 0);
  for (std::size_t head = 0; head <= 4; ++head) { // the mean is the last
    Tensor moved = head < 4 ? part_of_axis(weights, 0, head, 1).reshaped({3, 5}) : mean;
    moved = copy_of(view_of(moved));
    for (double& one : moved.as_mutable<double>()) one *= 1.001;
    const auto found = outcome(layer, "weights", moved, true);
    CHECK_FALSE(found->found.equal());
    CHECK_THAT(found->reference.notes.at(0),
               Contains(head < 4 ? fmt::format("head {} alone, to which it is nearer than to "
                                               "another alone or to their mean",
                                               head)
                                 : "the mean over the heads, to which it is nearer than to any"));
  }
}

TEST_CASE("log-sum-exps with room for whole tiles of queries are read without it") {
  for (const std::size_t T : {std::size_t{3}, std::size_t{130}}) {
    const Layer layer = layer_of({.T = T});
    const Tensor rows = stage_of(layer, Stage::logsumexp);
    const std::size_t tiles = (T + 127) / 128 * 128;
    Tensor padded(DType::f64, {2, 4, tiles});
    for (std::size_t i = 0; i < rows.count(); ++i)
      padded.as_mutable<double>()[i / T * tiles + i % T] = value_at(rows, i);
    const auto found = outcome(layer, "lse", padded, true);
    CHECK(found->found.equal());
    CHECK_THAT(found->reference.notes.at(0), Contains(fmt::format("the first {} of {}", T, tiles)));
    const Tensor wrong = with_one_wrong(padded, T - 1);
    CHECK_FALSE(outcome(layer, "lse", wrong, false)->found.equal());
  }
}

TEST_CASE("tiled keys and values agree only with what is computed from them") {
  const Layer layer = layer_of({.batched = false});
  const auto tiled = [&](Stage stage, bool in_groups) { // 2 heads, for 4 query heads
    const std::vector<std::size_t> heads =
        in_groups ? std::vector<std::size_t>{0, 0, 1, 1} : std::vector<std::size_t>{0, 1, 0, 1};
    return at_positions(stage_of(layer, stage), 0, heads);
  };
  const auto verdict_of = [&](bool in_groups, bool with_scores) {
    const test::Folder folder;
    std::vector<std::string> files{
        "k=" + folder.write("k.json", object("k", tiled(Stage::k, in_groups))),
        "v=" + folder.write("v.json", object("v", tiled(Stage::v, in_groups)))};
    if (with_scores)
      files.push_back("scores=" +
                      folder.write("s.json", object("scores", stage_of(layer, Stage::scores))));
    Reference reference = read_reference(without_given(layer, Stage::scores), files, "");
    settle(layer, reference);
    return outcome_of(layer, reference, diff(layer, reference), {.whole = true, .stages = {}});
  };
  CHECK(verdict_of(true, false).verdict == Verdict::equal);
  CHECK(verdict_of(true, true).verdict == Verdict::equal);
  CHECK(verdict_of(false, true).verdict == Verdict::equal);
  const auto open = verdict_of(false, false);
  CHECK(open.verdict == Verdict::incomplete);
  REQUIRE(open.not_compared.size() == 2);
  CHECK(open.not_compared[0].text() ==
        "the order of k's heads (query head h has h mod 2 there and h / 2, rounded down, here: "
        "save the scores or the output)");
}

TEST_CASE("a shape that nothing explains is a difference in shape") {
  const Layer layer = layer_of();
  const test::Folder folder;
  const std::string path = folder.write("ref.json", object("weights", wave({2, 3, 4}, 0.3)));
  CHECK_THROWS_WITH(read_reference(layer, {"weights=" + path}, ""),
                    Contains("weights is (2, 4, 3, 5) in this layer"));
  const Reference found = read_reference(layer, {path}, "");
  CHECK(found.stages.empty());
  CHECK(found.has_misshapen());
}
