// One item of a batch as a layer of its own: its numbers, and none of the others'.

#include <mha/observe/first_tokens.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

using namespace mha;

namespace {

constexpr std::size_t items = 3, longest = 4, width = 2;

Tensor counted_up(const Shape& shape, double first) {
  std::vector<double> values(count_of(shape));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + 0.1 * static_cast<double>(i);
  return Tensor::of<double>(shape, values);
}

/// Texts of 2, 4 and 3 tokens, one head, a mask and a patch that differ from item to item.
Layer batch() {
  Layer layer;
  layer.dtype = DType::f64;
  Dims& dims = layer.dims;
  dims.B = items, dims.batched = true, dims.T = dims.S = dims.S_all = longest;
  dims.H = dims.H_kv = 1, dims.d_model = dims.d_k = dims.d_v = dims.d_out = width;
  layer.X = counted_up({items, longest, width}, -1);
  layer.lengths = {2, 4, 3};
  layer.added.push_back({counted_up({items, longest, longest}, 0.5),
                         {longest * longest, 0, longest, 1},
                         0,
                         longest,
                         "mask.npy",
                         "mask"});
  ResolvedEdit patch;
  patch.stage = Stage::q, patch.op = PatchOp::add;
  patch.value = counted_up({items, 1, longest, width}, 2);
  patch.strides = {longest * width, 0, width, 1};
  patch.tokens = {PatchedAxis({1}, longest), PatchedAxis({0, 3}, longest),
                  PatchedAxis({2}, longest)};
  layer.patches.add(patch);
  std::vector<ItemLabels::List> labels;
  for (std::size_t b = 0; b < items; ++b)
    labels.emplace_back(layer.lengths[b], "t" + std::to_string(b));
  layer.item_tokens = layer.item_key_tokens = labels;
  layer.tokens = layer.key_tokens = labels[0];
  return layer;
}

std::vector<double> values_of(const Layer& layer, Stage stage, std::size_t item) {
  Selection selection;
  selection.batch = IndexList::of_indices({item}, "--batch");
  const Tensor value = trace(layer, {stage}, selection, 1).value(stage);
  std::vector<double> values(value.count());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(value, i);
  return values;
}

} // namespace

TEST_CASE("one item: the numbers that the batch has of it, whatever is in front of it") {
  const Layer whole = batch();
  for (std::size_t b = 0; b < items; ++b) {
    INFO(b);
    const Layer item = one_item(whole, b);
    CHECK(item.dims.B == 1);
    CHECK(item.first_item == b);
    CHECK(item.dims.T == whole.lengths[b]);
    CHECK(item.tokens == whole.tokens_of(b));
    for (const Stage stage : {Stage::q, Stage::masked, Stage::weights, Stage::output}) {
      INFO(info_of(stage).name);
      const std::vector<double> alone = values_of(item, stage, 0);
      CHECK(!alone.empty());
      CHECK(alone == values_of(whole, stage, b));
    }
  }
  CHECK(values_of(whole, Stage::q, 0) != values_of(whole, Stage::q, 1));
}

TEST_CASE("one item: it costs what the item does, and labels of the others are not copied") {
  const Layer whole = batch();
  const Layer item = one_item(whole, 1); // as long as the longest: nothing is shortened
  CHECK(item.X.raw() == whole.X.raw() + longest * width * sizeof(double));
  CHECK(item.X.count() == longest * width);
  CHECK(one_item(whole, 0).X.count() == 2 * width);
  CHECK(item.item_tokens.empty());
  const Layer copy = whole;
  CHECK(&copy.tokens_of(2) == &whole.tokens_of(2));
}

TEST_CASE("one item: a layer that is no batch is itself") {
  Layer layer = batch();
  layer.dims.batched = false, layer.dims.B = 1;
  CHECK(one_item(layer, 0).X.raw() == layer.X.raw());
  CHECK(one_item(layer, 0).dims == layer.dims);
}
