#include <mha/compare/reference.hpp>

#include "support/library_input.hpp"
#include "support/run.hpp"
#include <mha/compare/compare.hpp>
#include <mha/compare/settle.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/words.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

using namespace mha;
using Catch::Contains;

namespace {

/// T 3, S 5, H 4 on H_kv 2, d_k 6, d_v 7, d_model 8, one batch item without a batch axis: no two
/// alike.
Layer layer_of(std::size_t B = 1, bool batched = false, bool columns = false, std::size_t T = 3) {
  NamedTensors parts;
  const auto put = [&](const char* name, Shape shape, bool batch) {
    if (batch && batched) shape.insert(shape.begin(), B);
    if (batch && columns) std::swap(shape.end()[-1], shape.end()[-2]);
    if (!batch && columns) std::swap(shape[0], shape[1]);
    Tensor tensor(DType::f64, shape);
    double value = 0.1;
    for (double& x : tensor.as_mutable<double>()) x = std::fmod(value += 0.37, 2.0) - 1;
    parts[name] = {tensor, name};
  };
  put("X", {T, 8}, true), put("X_kv", {5, 9}, true);
  put("W_q", {8, 24}, false), put("W_k", {9, 12}, false), put("W_v", {9, 14}, false);
  put("W_o", {28, 8}, false);
  Settings settings;
  settings.num_heads = 4;
  settings.columns = columns;
  return make_layer(parts, settings);
}

/// A tensor as JSON, its numbers 0, 1, 2 …; axes that `order` permutes.
std::string object(const std::string& name, const Tensor& tensor,
                   const std::string& dtype = "float64") {
  std::string numbers;
  for (std::size_t i = 0; i < tensor.count(); ++i)
    numbers += fmt::format("{}{}", i == 0 ? "" : ",", value_at(tensor, i));
  return fmt::format(R"({{"{}": {{"shape": [{}], "dtype": "{}", "data": [{}]}}}})", name,
                     fmt::join(tensor.shape(), ","), dtype, numbers);
}

Tensor counting(const Shape& shape) {
  Tensor tensor(DType::f64, shape);
  std::iota(tensor.as_mutable<double>().begin(), tensor.as_mutable<double>().end(), 0.0);
  return tensor;
}

struct Files {
  test::Folder folder;

  Reference read(const Layer& layer, const std::string& name, const Tensor& tensor,
                 const std::string& binding = "") const {
    const std::string path = folder.write("ref.json", object(name, tensor));
    return read_reference(layer, {binding.empty() ? path : binding + path}, "");
  }
};

/// Reads a stage saved in some order of its axes and expects its own form.
void check_order(const Layer& layer, Stage stage, const std::string& own, const std::string& saved,
                 const std::vector<std::size_t>& order, const std::string& said) {
  const Tensor value = counting(layer.shape_of(stage));
  const Files files;
  INFO(own << " saved as " << saved);
  const Reference reference =
      files.read(layer, std::string(name_of(stage)), permuted(value, order));
  REQUIRE(reference.stages.size() == 1);
  CHECK(reference.stages[0].stage == stage);
  CHECK(reference.stages[0].rearranged == said);
  CHECK_FALSE(reference.stages[0].doubtful);
  CHECK(mha::compare(layer, stage, value, reference.stages[0].value, {}).same_bits);
}

} // namespace

TEST_CASE("a reference's axes are found by its shape") {
  const Layer layer = layer_of();
  check_order(layer, Stage::head_out, "HTD", "HTD", {0, 1, 2}, "");
  check_order(layer, Stage::head_out, "HTD", "THD", {1, 0, 2}, "read as BTHD");
  check_order(layer, Stage::q, "HTD", "HDT", {0, 2, 1}, "read as BHDT");
  check_order(layer, Stage::k, "HSD", "SHD", {1, 0, 2}, "read as BSHD");
  check_order(layer, Stage::weights, "HTS", "THS", {1, 0, 2}, "read as BTHS");
  check_order(layer, Stage::weights, "HTS", "TSH", {1, 2, 0}, "read as BTSH");
  check_order(layer, Stage::scores, "HTS", "HST", {0, 2, 1}, "read as BHST");
  check_order(layer, Stage::row_max, "HT", "TH", {1, 0}, "read as BTH");
  check_order(layer, Stage::head_result, "HTC", "THC", {1, 0, 2}, "read as BTHC");
  check_order(layer, Stage::output, "TC", "CT", {1, 0}, "read as BCT");
}

TEST_CASE("batches: any place of the axis, and none for a batch of one") {
  const Layer layer = layer_of(2, true);
  check_order(layer, Stage::head_out, "BHTD", "BTHD", {0, 2, 1, 3}, "read as BTHD");
  check_order(layer, Stage::head_out, "BHTD", "TBHD", {2, 0, 1, 3}, "read as TBHD");
  check_order(layer, Stage::output, "BTC", "TBC", {1, 0, 2}, "read as TBC");
  check_order(layer, Stage::weights, "BHTS", "HBTS", {1, 0, 2, 3}, "read as HBTS");

  const Files files;
  const Layer one = layer_of(1, true);
  const Tensor value = counting(one.shape_of(Stage::weights));
  Shape shape = value.shape();
  shape.erase(shape.begin());
  const Reference without = files.read(one, "weights", value.reshaped(shape));
  CHECK(without.stages[0].rearranged.empty());
  CHECK(mha::compare(one, Stage::weights, value, without.stages[0].value, {}).same_bits);

  const Layer none = layer_of();
  shape.insert(shape.begin(), 1);
  CHECK(files.read(none, "weights", value.reshaped(shape)).stages[0].rearranged.empty());
}

TEST_CASE("packed heads, row values with a last axis of one, repeated key/value heads") {
  const Layer layer = layer_of();
  const Files files;
  {
    const Tensor value = counting(layer.shape_of(Stage::head_out)); // 4, 3, 7
    const Tensor packed = permuted(value, {1, 0, 2}).reshaped({3, 28});
    const Reference reference = files.read(layer, "z", packed);
    CHECK(reference.stages[0].rearranged == "read as BTC");
    CHECK(reference.notes == std::vector<std::string>{"read as BTC: z"});
    CHECK(mha::compare(layer, Stage::head_out, value, reference.stages[0].value, {}).same_bits);
    CHECK(files.read(layer, "Q", counting({3, 24})).stages[0].stage == Stage::q);
    CHECK(files.read(layer, "Q", counting({3, 24})).notes.empty());
    // concat, one axis a head
    const Reference split = files.read(layer, "concat", packed.reshaped({3, 4, 7}));
    CHECK(split.stages[0].rearranged == "read as BTHD");
    CHECK(mha::compare(layer, Stage::concat, packed, split.stages[0].value, {}).same_bits);
  }
  {
    const Reference reference = files.read(layer, "row_sum", counting({4, 3, 1}));
    CHECK(reference.stages[0].value.shape() == Shape{4, 3});
  }
  {
    const Tensor value = counting(layer.shape_of(Stage::k)); // 2, 5, 6
    Tensor repeated(DType::f64, {4, 5, 6});
    for (std::size_t h = 0; h < 4; ++h)
      for (std::size_t i = 0; i < 30; ++i)
        repeated.as_mutable<double>()[h * 30 + i] = value_at(value, h / 2 * 30 + i);
    const Reference reference = files.read(layer, "k", repeated);
    CHECK_THAT(reference.stages[0].rearranged, Contains("one of each group"));
    CHECK(mha::compare(layer, Stage::k, value, reference.stages[0].value, {}).same_bits);
    const Reference tokens_first = files.read(layer, "k", permuted(repeated, {1, 0, 2}));
    CHECK(mha::compare(layer, Stage::k, value, tokens_first.stages[0].value, {}).same_bits);
    // Tiled: head h is key/value head h mod H_kv.
    for (std::size_t h = 0; h < 4; ++h)
      for (std::size_t i = 0; i < 30; ++i)
        repeated.as_mutable<double>()[h * 30 + i] = value_at(value, h % 2 * 30 + i);
    const Reference tiled = files.read(layer, "k", repeated);
    CHECK(mha::compare(layer, Stage::k, value, tiled.stages[0].value, {}).same_bits);
    repeated.as_mutable<double>()[40] += 1;
    CHECK_THROWS_WITH(files.read(layer, "k", repeated), Contains("are not alike"));
  }
}

TEST_CASE("columns: a reference in the layer's own form, or in rows") {
  const Layer layer = layer_of(1, false, true);
  check_order(layer, Stage::head_out, "HDT", "HDT", {0, 1, 2}, "");
  check_order(layer, Stage::head_out, "HDT", "HTD", {0, 2, 1}, "read as BHTD");
  check_order(layer, Stage::weights, "HST", "HTS", {0, 2, 1}, "read as BHTS");
  check_order(layer, Stage::output, "CT", "TC", {1, 0}, "read as BTC");
}

TEST_CASE("@AXES say how a reference is to be read") {
  const Layer layer = layer_of();
  const Files files;
  const Tensor value = counting(layer.shape_of(Stage::head_out)); // 4, 3, 7
  const auto bound = [&](const Tensor& tensor, const std::string& axes) {
    const std::string path = files.folder.write("z.json", object("z", tensor));
    return read_reference(layer, {"head_out=" + path + ":z@" + axes}, "").stages.at(0);
  };
  for (const auto& [axes, order] : {std::pair("HTD", std::vector<std::size_t>{0, 1, 2}),
                                    {"THD", {1, 0, 2}},
                                    {"DHT", {2, 0, 1}}}) {
    INFO(axes);
    const ReferenceStage stage = bound(permuted(value, order), axes);
    CHECK(mha::compare(layer, Stage::head_out, value, stage.value, {}).same_bits);
  }
  const ReferenceStage packed = bound(permuted(value, {1, 0, 2}).reshaped({3, 28}), "TC");
  CHECK(mha::compare(layer, Stage::head_out, value, packed.value, {}).same_bits);
  CHECK_THROWS_WITH(bound(value, "THD"), Contains("is (4, 3, 7), read as THD") &&
                                             Contains("head_out is (4, 3, 7) in this layer"));
  CHECK_THROWS_WITH(bound(value, "TD"), Contains("names 2 axes, the array has 3"));
}

TEST_CASE("a shape that fits in more than one way: the numbers decide, else the layer's own form") {
  // As many queries as heads: T 4.
  const Layer layer = layer_of(1, false, false, 4);
  const Files files;
  const Reference own = files.read(layer, "head_out", counting({4, 4, 7}));
  CHECK(own.stages[0].rearranged.empty());
  CHECK(own.stages[0].doubtful);
  // 4 × 5 × 4: THS of which? Tokens and heads are alike.
  const Reference turned = files.read(layer, "weights", counting({4, 5, 4}));
  CHECK(turned.stages[0].rearranged == "read as BTSH");
  REQUIRE(turned.stages[0].other_axes.size() == 1);
  CHECK(turned.stages[0].other_axes[0].first == "read as BHST");
  const Reference other = files.read(layer, "weights", counting({4, 5, 5}));
  REQUIRE(other.not_compared.size() == 1);
  CHECK(other.has_misshapen());
  CHECK(other.not_compared[0].text() == "weights is (4, 5, 5): weights is (4, 4, 5) in this layer");

  for (const auto& [order, said] :
       {std::pair(std::vector<std::size_t>{0, 1, 2}, ""), {{1, 0, 2}, "read as BTHD"}}) {
    const Tensor value = trace(layer, {Stage::head_out}).value(Stage::head_out);
    Reference reference = files.read(layer, "head_out", permuted(value, order));
    settle(layer, reference);
    CHECK(reference.stages[0].rearranged == said);
    CHECK_FALSE(reference.stages[0].doubtful);
    CHECK(mha::compare(layer, Stage::head_out, value, reference.stages[0].value, {1e-6, 0}).within);
  }
}

TEST_CASE("batch and heads as one axis, (B · H, T, d)") {
  const Layer layer = layer_of(2, true);
  const Files files;
  const Tensor value = counting(layer.shape_of(Stage::head_out)); // 2, 4, 3, 7
  const Reference flat = files.read(layer, "head_out", value.reshaped({8, 3, 7}));
  CHECK(flat.stages[0].rearranged == "read as (BH)TD");
  CHECK(mha::compare(layer, Stage::head_out, value, flat.stages[0].value, {}).same_bits);
  REQUIRE(flat.stages[0].other_axes.size() == 1); // or heads before the batch
  CHECK(flat.stages[0].other_axes[0].first == "read as (HB)TD");
  const Tensor turned = permuted(value, {1, 0, 2, 3}).reshaped({8, 3, 7});
  CHECK(mha::compare(layer, Stage::head_out, value,
                     files.read(layer, "head_out", turned).stages[0].other_axes[0].second, {})
            .same_bits);
  CHECK(files.read(layer, "weights", counting({8, 3, 5})).stages[0].rearranged == "read as (BH)TS");
}

TEST_CASE("names: aliases, prefixes, words with several meanings, tensors that are no stage") {
  const Layer layer = layer_of();
  const Files files;
  for (const auto& [name, stage] : {std::pair("blocks.0.attn.hook_z", Stage::head_out),
                                    {"attn.hook_result", Stage::head_result},
                                    {"model.layers.3.attn_out", Stage::output},
                                    {"kq_soft_max", Stage::weights},
                                    {"hook_attn_scores", Stage::masked},
                                    {"lse", Stage::logsumexp},
                                    {"hidden_states", Stage::x}}) {
    INFO(name);
    CHECK(files.read(layer, name, counting(layer.shape_of(stage))).stages.at(0).stage == stage);
  }
  // By its shape alone: the heads side by side, not the output.
  const Reference joined = files.read(layer, "attn_output", counting({3, 28}));
  REQUIRE(joined.ambiguous.size() == 1); // head_out packed, or concat
  CHECK(files.read(layer, "attn_output", counting({3, 8})).stages.at(0).stage == Stage::output);
  CHECK(files.read(layer, "query", counting({4, 3, 6})).stages.at(0).stage == Stage::q);

  const std::string path = files.folder.write(
      "some.json", R"({"W_q": [[1, 2]], "q_rope": [[1]], "loss": [1, 2], "wieghts": [1],
                       "output": [[1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8]]})");
  const Reference some = read_reference(layer, {path}, "");
  REQUIRE(some.stages.size() == 1);
  CHECK(some.skipped == std::vector<std::string>{"W_q", "loss"});
  CHECK(joined_texts(some.not_compared, ", ", &NotCompared::text) ==
        "q_rope (this layer has no q_rope), wieghts (is it weights?)");
  CHECK_FALSE(some.has_misshapen());
  CHECK(contains(some.lacking, Stage::q_rope));
  CHECK(some.lacking.count() == 1);
}

TEST_CASE("a word with several meanings is taken as the one that is closest") {
  const Layer layer = layer_of();
  const Files files;
  for (Stage stage : {Stage::scaled, Stage::weights}) {
    Reference reference = files.read(layer, "attn_weights", trace(layer, {stage}).value(stage));
    REQUIRE(reference.ambiguous.size() == 1);
    settle(layer, reference);
    CHECK(reference.ambiguous.empty());
    REQUIRE(reference.stages.size() == 1);
    CHECK(reference.stages[0].stage == stage);
    CHECK_THAT(reference.notes.back(),
               Contains(fmt::format(
                   "attn_weights is taken as {}, to which it is closer than to {}", name_of(stage),
                   name_of(stage == Stage::scaled ? Stage::weights : Stage::scaled))));
  }
  // Not one that the reference has by its own name.
  const std::string path = files.folder.write(
      "a.json", object("attn_weights", trace(layer, {Stage::weights}).value(Stage::weights)));
  const std::string other = files.folder.write(
      "b.json", object("weights", trace(layer, {Stage::weights}).value(Stage::weights)));
  Reference reference = read_reference(layer, {path, other}, "");
  settle(layer, reference);
  REQUIRE(reference.stages.size() == 2);
  CHECK(reference.stages[0].stage == Stage::scaled);
}

TEST_CASE("types: halves are kept exactly, integers and bare lists count as the layer's") {
  const Layer layer = layer_of();
  const test::Folder folder;
  Tensor half = convert(counting({3, 8}), DType::bf16);
  const std::string raw =
      folder.write("out.bin", std::string(reinterpret_cast<const char*>(half.raw()), half.bytes()));
  const ReferenceStage bf16 =
      read_reference(layer, {"output=" + raw + ":bf16[3,8]"}, "").stages.at(0);
  CHECK(bf16.stored == DType::bf16);
  CHECK(bf16.value.dtype() == DType::f32);
  CHECK(value_at(bf16.value, 23) == 23);
  const std::string list = folder.write("output.json", R"({"output": [
    [1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8]]})");
  CHECK(read_reference(layer, {list}, "").stages.at(0).stored == layer.dtype);
  const std::string f16 = folder.write("h.json", object("output", counting({3, 8}), "float16"));
  CHECK(read_reference(layer, {f16}, "").stages.at(0).stored == DType::f16);
}

TEST_CASE("layers: names with another number belong to other layers") {
  const Layer layer = layer_of();
  const test::Folder folder;
  const std::string numbers = R"([[1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8]])";
  const std::string path = folder.write(
      "all.json", fmt::format(R"({{"layers.0.output": {0}, "layers.1.output": {0}}})", numbers));
  CHECK(read_reference(layer, {path}, "1").stages.at(0).source.ends_with("layers.1.output"));
  CHECK_THROWS_WITH(read_reference(layer, {path}, ""), Contains("stages of layers 0, 1"));
  folder.write("ref7.json", fmt::format(R"({{"output": {}}})", numbers));
  const std::string numbered = folder.path("ref{layer}.json");
  CHECK(read_reference(layer, {numbered}, "7").stages.size() == 1);
  CHECK(read_reference(layer, {"output=" + numbered + ":output"}, "7").stages.size() == 1);
  CHECK_THROWS_WITH(read_reference(layer, {numbered}, ""),
                    Contains("{layer} needs a layer number"));
}

TEST_CASE("references that cannot be used are refused, with the cure") {
  const Layer layer = layer_of();
  const test::Folder folder;
  const std::string numbers = R"([[1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8],[1,2,3,4,5,6,7,8]])";
  const std::string one = folder.write("one.json", fmt::format(R"({{"output": {}}})", numbers));
  const std::string two = folder.write("two.json", fmt::format(R"({{"y": {}}})", numbers));
  const std::string none = folder.write("none.json", R"({"loss": [1, 2]})");
  CHECK_THROWS_WITH(read_reference(layer, {}, ""), Contains("no reference is given"));
  CHECK_THROWS_WITH(read_reference(layer, {one, two}, ""),
                    Contains("both are output; bind the one that is meant"));
  CHECK(read_reference(layer, {one, "output=" + two + ":y"}, "").stages.size() == 1);
  CHECK_THROWS_WITH(read_reference(layer, {none}, ""),
                    Contains("no stage of this layer is in it, but loss; its stages are x, q, k"));
  CHECK_THROWS_WITH(read_reference(layer, {"wieghts=" + one}, ""),
                    Contains("'wieghts' is not a stage; did you mean 'weights'?"));
  CHECK_THROWS_WITH(read_reference(layer, {"q_rope=" + one + ":output"}, ""),
                    Contains("this layer has no q_rope"));
  CHECK_THROWS_WITH(read_reference(layer, {folder.path("missing.npz")}, ""),
                    Contains("no such file"));
}
