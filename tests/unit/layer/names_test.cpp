// The table of a layer's tensors: complete, and true to how the layer keeps them.

#include <mha/naming/forms.hpp>
#include <mha/layer/names.hpp>
#include <mha/naming/tensor_names.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

using Catch::Matchers::Contains;
using mha::Dim;
using mha::Dims;
using mha::Shape;
using mha::Tensor;
using mha::TensorInfo;

namespace {

/// Every size another one.
Dims distinct_sizes() {
  Dims d;
  d.B = 2, d.batched = true, d.T = 3, d.S = 5, d.past = 7, d.H = 4, d.H_kv = 2;
  d.d_model = 11, d.d_k = 13, d.d_v = 17, d.d_out = 19, d.r_q = 23, d.r_kv = 29, d.d_pe = 31;
  return d;
}

Tensor counting(const Shape& shape) {
  std::vector<double> values(mha::count_of(shape));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return Tensor::of<double>(shape, values);
}

const TensorInfo& row(std::string_view name) {
  for (const TensorInfo& info : mha::layer_tensors())
    if (info.name == name) return info;
  FAIL("no row " << name);
  return mha::layer_tensors()[0];
}

} // namespace

TEST_CASE("tensors: each member of a layer is one row, and each row one member") {
  mha::Layer layer;
  std::set<const Tensor*> members;
  std::set<std::string_view> names;
  for (const TensorInfo& info : mha::layer_tensors()) {
    CHECK(members.insert(&info.of(layer)).second);
    CHECK(names.insert(info.name).second);
    CHECK_FALSE(info.forms.empty());
  }
  CHECK(members.size() == sizeof(mha::LayerTensors) / sizeof(Tensor));
}

TEST_CASE("tensors: shapes in words") {
  const auto text = [](std::string_view name) {
    return mha::shape_text(*mha::find_tensor_name(name));
  };
  CHECK(text("X") == "(B,) T, d_model");
  CHECK(text("W_k") == "d_in, H_kv·d_k or H_kv, d_in, d_k");
  CHECK(text("q_norm.weight") == "d_k or H, d_k or H·d_k");
  CHECK(text("mask") == "broadcastable to B, H, T, S");
  CHECK(text("positions") == "T or 3, T");
  CHECK(text("relative_key") == "2M − 1, d_k");
  CHECK(text("W_kv_b") == "r_kv, H·(d_k − d_pe + d_v)");
}

TEST_CASE("tensors: one matrix a head lies side by side") {
  const Dims d = distinct_sizes();
  const Tensor W = counting({4, 11, 13}); // H, d_in, d_k
  const Tensor kept = mha::stored(row("W_q"), W, d, "W_q");
  REQUIRE(kept.shape() == Shape{11, 4 * 13});
  for (std::size_t h : {0u, 3u})
    for (std::size_t i : {0u, 10u})
      for (std::size_t j : {0u, 12u})
        CHECK(mha::value_at(kept, i * 52 + h * 13 + j) == mha::value_at(W, (h * 11 + i) * 13 + j));
  const Tensor flat = counting({11, 52});
  CHECK(mha::stored(row("W_q"), flat, d, "W_q").raw() == flat.raw()); // nothing is copied
  CHECK(mha::stored(row("W_o"), counting({4, 17, 19}), d, "W_o").shape() == Shape{68, 19});
}

TEST_CASE("tensors: earlier keys lie as they are given, head by head") {
  const Dims d = distinct_sizes();
  const Tensor past = counting({2, 2, 7, 13}); // B, H_kv, P, d_k
  const Tensor kept = mha::stored(row("k_past"), past, d, "k_past");
  CHECK(kept.shape() == past.shape());
  CHECK(kept.raw() == past.raw());
}

TEST_CASE("tensors: other axes of as many numbers are read, another number is refused") {
  const Dims d = distinct_sizes();
  CHECK(mha::stored(row("q_norm.weight"), counting({13, 1}), d, "n").shape() == Shape{13});
  CHECK(mha::stored(row("q_norm.weight"), counting({4, 13}), d, "n").shape() == Shape{4, 13});
  CHECK(mha::stored(row("q_norm.weight"), counting({52}), d, "n").shape() == Shape{52});
  CHECK(mha::stored(row("b_k"), counting({2, 13}), d, "b").shape() == Shape{26});
  CHECK_THROWS_WITH(mha::stored(row("b_k"), counting({25}), d, "f: b_k"),
                    Contains("f: b_k is (25,): (26,) expected"));
  CHECK_THROWS_WITH(mha::stored(row("q_norm.weight"), counting({3, 13}), d, "f: n"),
                    Contains("f: n is (3, 13): (4, 13) expected"));
}

TEST_CASE("tensors: a stage lies with its heads side by side") {
  const Dims d = distinct_sizes();
  const Tensor q = counting({2, 4, 3, 13}); // B, H, T, d_k
  const Tensor kept = mha::stored(mha::Stage::q, q, d);
  REQUIRE(kept.shape() == Shape{2, 3, 52});
  CHECK(mha::value_at(kept, (1 * 3 + 2) * 52 + 3 * 13 + 5) ==
        mha::value_at(q, ((1 * 4 + 3) * 3 + 2) * 13 + 5));
  CHECK(mha::form_of(mha::Stage::q, d, true).given == Shape{2, 3, 52});
  CHECK(mha::form_of(mha::Stage::weights, d).stored == mha::form_of(mha::Stage::weights, d).given);
}
