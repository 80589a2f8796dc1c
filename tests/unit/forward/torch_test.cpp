#include "support/compare.hpp"
#include "support/files.hpp"
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cmath>

// nn.MultiheadAttention, computed by PyTorch in float64 from float32 weights and given as its
// state_dict: a user's files, read as a user reads them.

namespace {

const std::vector<std::string> cases{
    "batch",      "bias_kv",   "bias_kv_zero_attn", "bool_mask",    "causal",      "cross",
    "float_mask", "head_mask", "kdim_vdim",         "large_scores", "long",        "nobias",
    "one_token",  "padding",   "padding_causal",    "self",         "single_head", "wide",
    "zero_attn"};

mha::Layer load(const std::string& name, mha::DType dtype) {
  mha::Request request;
  request.sources = {in_source("tests/data/torch/" + name + ".npz")};
  request.dtype = dtype;
  const mha::Sources model(request);
  REQUIRE(model.chosen().size() == 1);
  return model.load(model.chosen()[0]).layer;
}

void require_same(const std::string& name, mha::DType dtype, double bound) {
  const mha::io::Contents expected =
      mha::io::open(in_source("tests/data/torch/" + name + ".expect.npz"));
  const mha::Layer layer = load(name, dtype);
  const mha::Trace trace = mha::trace(layer, {mha::Stage::weights, mha::Stage::output});
  INFO(name << " " << mha::name_of(dtype));
  CHECK(compare(trace.value(mha::Stage::weights), tensor_in(expected, "weights"), bound) == "");
  CHECK(compare(trace.value(mha::Stage::output), tensor_in(expected, "output"), bound) == "");
}

} // namespace

TEST_CASE("PyTorch's MultiheadAttention in float64") {
  for (const std::string& name : cases) require_same(name, mha::DType::f64, 1e-10);
}

TEST_CASE("PyTorch's MultiheadAttention in float32") {
  // Scores in the thousands keep too few digits after the point in float32 for the softmax's sake.
  for (const std::string& name : cases)
    if (name != "large_scores") require_same(name, mha::DType::f32, 2e-5);
}

TEST_CASE("large scores stay finite") {
  for (mha::DType dtype : {mha::DType::f32, mha::DType::f64}) {
    const mha::Layer layer = load("large_scores", dtype);
    const mha::Trace trace =
        mha::trace(layer, {mha::Stage::scores, mha::Stage::weights, mha::Stage::output});
    CHECK(magnitude(trace.value(mha::Stage::scores)) > 1000);
    for (mha::Stage stage : {mha::Stage::weights, mha::Stage::output})
      for (std::size_t i = 0; i < trace.value(stage).count(); ++i)
        if (!std::isfinite(mha::value_at(trace.value(stage), i)))
          FAIL(name_of(stage) << " is not finite");
  }
}
