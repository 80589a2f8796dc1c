#include "support/compare.hpp"
#include "support/layer_file.hpp"
#include "support/library_input.hpp"
#include "support/onnx_attention.hpp"
#include "support/random_layer.hpp"
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

// ONNX's Attention operator, opset 25: the shapes and attributes of its own test cases (their
// inputs are random there too) and a few of ours, from a file with ONNX's names for everything.

using reference::Shape;

namespace {

struct Case {
  const char* name;
  int rank = 4;
  std::size_t H = 3, H_kv = 3, T = 4, S = 6, d = 8, d_v = 8, past = 0;
  Shape mask = {};
  bool bool_mask = false;
  bool masked_row = false; ///< the mask hides everything from the second query
  std::vector<std::size_t> nonpad = {};
  bool causal = false;
  double scale = 0, softcap = 0;
  int left = -1, right = -1;
};

// Names that begin with "attention_" are ONNX's, without "test_".
// clang-format off
const std::vector<Case> cases{
  {.name = "attention_4d"},
  {.name = "attention_4d_gqa", .H = 9},
  {.name = "attention_4d_diff_heads_sizes", .d_v = 10},
  {.name = "attention_4d_scaled", .scale = 1e-2},
  {.name = "attention_4d_gqa_scaled", .H = 9, .scale = 1e-2},
  {.name = "attention_4d_diff_heads_sizes_scaled", .d_v = 10, .scale = 1e-2},
  {.name = "attention_4d_causal", .causal = true},
  {.name = "attention_4d_gqa_causal", .H = 9, .causal = true},
  {.name = "attention_4d_diff_heads_sizes_causal", .d_v = 10, .causal = true},
  {.name = "attention_4d_attn_mask", .mask = {4, 6}},
  {.name = "attention_4d_attn_mask_3d", .mask = {2, 1, 4, 6}},
  {.name = "attention_4d_attn_mask_3d_causal", .mask = {2, 1, 4, 6}, .causal = true},
  {.name = "attention_4d_attn_mask_4d", .mask = {2, 3, 4, 6}},
  {.name = "attention_4d_attn_mask_4d_causal", .mask = {2, 3, 4, 6}, .causal = true},
  {.name = "attention_4d_attn_mask_bool", .mask = {4, 6}, .bool_mask = true},
  {.name = "attention_4d_attn_mask_bool_4d", .mask = {2, 3, 4, 6}, .bool_mask = true},
  {.name = "attention_4d_gqa_attn_mask", .H = 9, .mask = {4, 6}},
  {.name = "attention_4d_diff_heads_sizes_attn_mask", .d_v = 10, .mask = {4, 6}},
  {.name = "attention_4d_with_past_and_present", .past = 12, .mask = {4, 18}},
  {.name = "attention_4d_gqa_with_past_and_present", .H = 9, .past = 12, .mask = {4, 18}},
  {.name = "attention_4d_diff_heads_with_past_and_present", .d_v = 10, .past = 12, .mask = {4, 18}},
  {.name = "attention_4d_diff_heads_with_past_and_present_mask3d", .d_v = 10, .past = 12, .mask = {2, 1, 4, 18}},
  {.name = "attention_4d_diff_heads_with_past_and_present_mask4d", .d_v = 10, .past = 12, .mask = {2, 3, 4, 18}},
  {.name = "attention_4d_softcap", .softcap = 2},
  {.name = "attention_4d_gqa_softcap", .H = 9, .softcap = 2},
  {.name = "attention_4d_diff_heads_sizes_softcap", .d_v = 10, .softcap = 2},
  // All modes of qk_matmul_output are compared in every case.
  {.name = "attention_4d_with_qk_matmul"},
  {.name = "attention_4d_with_qk_matmul_bias", .mask = {4, 6}},
  {.name = "attention_4d_with_qk_matmul_softcap", .mask = {4, 6}, .softcap = 2},
  {.name = "attention_4d_with_qk_matmul_softmax", .mask = {4, 6}},
  {.name = "attention_4d_with_past_and_present_qk_matmul_bias", .past = 12, .mask = {4, 18}},
  {.name = "attention_4d_with_past_and_present_qk_matmul_bias_3d_mask", .past = 12, .mask = {2, 1, 4, 18}},
  {.name = "attention_4d_with_past_and_present_qk_matmul_bias_4d_mask", .past = 12, .mask = {2, 3, 4, 18}},
  {.name = "attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal", .past = 12, .mask = {2, 1, 4, 18}, .causal = true},
  {.name = "attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal", .past = 12, .mask = {2, 3, 4, 18}, .causal = true},
  {.name = "attention_4d_with_past_and_present_qk_matmul", .past = 12, .mask = {4, 18}},
  {.name = "attention_3d", .rank = 3},
  {.name = "attention_3d_gqa", .rank = 3, .H = 9},
  {.name = "attention_3d_diff_heads_sizes", .rank = 3, .d_v = 10},
  {.name = "attention_3d_scaled", .rank = 3, .scale = 1e-2},
  {.name = "attention_3d_gqa_scaled", .rank = 3, .H = 9, .scale = 1e-2},
  {.name = "attention_3d_diff_heads_sizes_scaled", .rank = 3, .d_v = 10, .scale = 1e-2},
  {.name = "attention_3d_causal", .rank = 3, .causal = true},
  {.name = "attention_3d_gqa_causal", .rank = 3, .H = 9, .causal = true},
  {.name = "attention_3d_diff_heads_sizes_causal", .rank = 3, .d_v = 10, .causal = true},
  {.name = "attention_3d_attn_mask", .rank = 3, .mask = {4, 6}},
  {.name = "attention_3d_gqa_attn_mask", .rank = 3, .H = 9, .mask = {4, 6}},
  {.name = "attention_3d_diff_heads_sizes_attn_mask", .rank = 3, .d_v = 10, .mask = {4, 6}},
  {.name = "attention_3d_softcap", .rank = 3, .softcap = 3},
  {.name = "attention_3d_gqa_softcap", .rank = 3, .H = 9, .softcap = 3},
  {.name = "attention_3d_diff_heads_sizes_softcap", .rank = 3, .d_v = 10, .softcap = 3},
  {.name = "attention_3d_with_past_and_present", .rank = 3, .past = 12, .mask = {4, 18}},
  {.name = "attention_3d_gqa_with_past_and_present", .rank = 3, .H = 9, .past = 12, .mask = {4, 18}},
  {.name = "attention_3d_diff_heads_with_past_and_present", .rank = 3, .d_v = 10, .past = 12, .mask = {4, 18}},
  {.name = "attention_3d_with_past_and_present_qk_matmul", .rank = 3, .past = 12, .mask = {4, 18}},
  {.name = "attention_3d_with_past_and_present_qk_matmul_bias", .rank = 3, .past = 12, .mask = {4, 18}},
  {.name = "attention_3d_with_past_and_present_qk_matmul_softcap", .rank = 3, .past = 12, .mask = {4, 18}, .softcap = 2},
  {.name = "attention_3d_with_past_and_present_qk_matmul_softmax", .rank = 3, .past = 12, .mask = {4, 18}},
  {.name = "attention_4d_diff_heads_mask4d_padded_kv", .d_v = 10, .mask = {2, 3, 4, 4}, .nonpad = {3, 4}},

  {.name = "fully masked row, bool", .mask = {4, 6}, .bool_mask = true, .masked_row = true},
  {.name = "fully masked row, float", .mask = {2, 1, 4, 6}, .masked_row = true},
  {.name = "fully masked row, gqa, rank 3, softcap", .rank = 3, .H = 9, .mask = {4, 6}, .bool_mask = true, .masked_row = true, .softcap = 2},
  {.name = "fully masked rows by nonpad_kv_seqlen and causal", .nonpad = {2, 0}, .causal = true},
  {.name = "bool mask and causal", .mask = {2, 3, 4, 6}, .bool_mask = true, .causal = true},
  {.name = "mask of rank 1", .mask = {6}},
  {.name = "bool mask of rank 1, gqa", .H = 9, .mask = {6}, .bool_mask = true},
  {.name = "mask of rank 3: heads", .mask = {3, 4, 6}},
  {.name = "mask of rank 3: one for all heads", .mask = {1, 4, 6}, .bool_mask = true},
  {.name = "mask shorter than the keys", .mask = {4, 5}},
  {.name = "bool mask shorter than the keys", .mask = {2, 1, 4, 3}, .bool_mask = true},
  {.name = "mask of rank 1 shorter than past and current keys", .past = 12, .mask = {15}, .causal = true},
  {.name = "causal with past", .past = 5, .causal = true},
  {.name = "causal with past, as many queries as keys", .T = 4, .S = 4, .past = 5, .causal = true},
  {.name = "causal with past, rank 3, gqa, different head sizes", .rank = 3, .H = 9, .d_v = 10, .past = 5, .causal = true},
  {.name = "nonpad_kv_seqlen", .nonpad = {5, 2}},
  {.name = "nonpad_kv_seqlen, causal", .S = 9, .nonpad = {9, 5}, .causal = true},
  {.name = "nonpad_kv_seqlen, causal, rank 3, gqa, mask", .rank = 3, .H = 9, .S = 9, .mask = {4, 9}, .nonpad = {7, 5}, .causal = true},
  {.name = "local window", .causal = true, .left = 1},
  {.name = "local window of the query alone", .causal = true, .left = 0},
  {.name = "local window to both sides", .left = 1, .right = 2},
  {.name = "local window to the right", .right = 1},
  {.name = "local window, past", .past = 7, .causal = true, .left = 3},
  {.name = "local window to both sides, past", .past = 7, .left = 3, .right = 1},
  {.name = "local window, nonpad_kv_seqlen", .S = 9, .nonpad = {9, 6}, .causal = true, .left = 2},
  {.name = "local window, gqa, mask of rank 4", .H = 9, .mask = {2, 9, 4, 6}, .causal = true, .left = 1},
  {.name = "local window, softcap, bool mask, different head sizes", .d_v = 10, .mask = {4, 6}, .bool_mask = true, .softcap = 2, .left = 2, .right = 0},
};
// clang-format on

class Maker {
public:
  Maker(std::uint64_t seed, mha::DType dtype) : random_(seed), dtype_(dtype) {}

  onnx::Inputs inputs(const Case& c) {
    const auto tokens = [&](std::size_t heads, std::size_t n, std::size_t d) {
      return numbers(c.rank == 3 ? Shape{B, n, heads * d} : Shape{B, heads, n, d});
    };
    onnx::Inputs in;
    in.Q = tokens(c.H, c.T, c.d), in.K = tokens(c.H_kv, c.S, c.d);
    in.V = tokens(c.H_kv, c.S, c.d_v);
    if (c.past > 0) {
      in.past_key = numbers({B, c.H_kv, c.past, c.d});
      in.past_value = numbers({B, c.H_kv, c.past, c.d_v});
    }
    in.nonpad_kv_seqlen = c.nonpad, in.mask_is_bool = c.bool_mask;
    if (!c.mask.empty()) in.attn_mask = mask(c);
    return in;
  }

private:
  static constexpr std::size_t B = 2;

  reference::Array numbers(const Shape& shape) {
    reference::Array array(shape);
    for (double& value : array.values) value = random_.uniform(-1.5, 1.5);
    return rounded(array, dtype_);
  }
  reference::Array mask(const Case& c) {
    reference::Array mask = numbers(c.mask);
    const std::size_t keys = c.mask.back();
    for (std::size_t i = 0; i < mask.values.size(); ++i) {
      const bool hidden = c.masked_row && i / keys % c.T == 1;
      if (c.bool_mask)
        mask.values[i] = !hidden && random_.chance(0.7) ? 1 : 0;
      else if (hidden)
        mask.values[i] = -std::numeric_limits<double>::infinity();
    }
    return mask;
  }

  Random random_;
  mha::DType dtype_;
};

onnx::Attributes attributes_of(const Case& c) {
  onnx::Attributes a;
  a.is_causal = c.causal, a.scale = c.scale, a.softcap = c.softcap;
  a.q_num_heads = c.H, a.kv_num_heads = c.H_kv;
  a.left_window_size = c.left, a.right_window_size = c.right;
  return a;
}

LayerFile file_of(const Case& c, const onnx::Inputs& in, mha::DType dtype) {
  LayerFile file;
  file.put("Q", in.Q, dtype), file.put("K", in.K, dtype), file.put("V", in.V, dtype);
  file.put("attn_mask", in.attn_mask, c.bool_mask ? mha::DType::boolean : dtype);
  file.put("past_key", in.past_key, dtype), file.put("past_value", in.past_value, dtype);
  if (!c.nonpad.empty()) {
    reference::Array lengths({c.nonpad.size()});
    std::copy(c.nonpad.begin(), c.nonpad.end(), lengths.values.begin());
    file.put("nonpad_kv_seqlen", lengths, mha::DType::i64);
  }
  const auto say = [&](const char* name, const auto& value) {
    file.settings.emplace_back(name, fmt::format("{}", value));
  };
  if (c.rank == 3) say("q_num_heads", c.H), say("kv_num_heads", c.H_kv);
  if (c.causal) say("is_causal", 1);
  if (c.scale != 0) say("scale", c.scale);
  if (c.softcap != 0) say("softcap", c.softcap);
  if (c.left >= 0) say("left_window_size", c.left);
  if (c.right >= 0) say("right_window_size", c.right);
  return file;
}

void require_same(const Case& c, const onnx::Outputs& want, const mha::Layer& layer,
                  mha::DType dtype) {
  using mha::Stage;
  const auto& [raw, capped, masked, weights] = want.qk_matmul_output;
  std::vector<std::pair<Stage, const reference::Array*>> pairs{
      {Stage::scaled, &raw},
      {Stage::masked, &masked},
      {Stage::weights, &weights},
      {c.rank == 4 ? Stage::head_out : Stage::output, &want.Y},
      {c.past > 0 ? Stage::k_all : Stage::k, &want.present_key},
      {c.past > 0 ? Stage::v_all : Stage::v, &want.present_value}};
  if (c.softcap != 0) pairs.emplace_back(Stage::capped, &capped);
  std::vector<Stage> stages;
  for (const auto& pair : pairs) stages.push_back(pair.first);
  const mha::Trace trace = mha::trace(layer, stages);
  for (const auto& [stage, array] : pairs) {
    INFO(c.name << ", " << mha::name_of(dtype) << ": " << name_of(stage));
    const mha::Tensor expected = tensor_of(*array, mha::DType::f64);
    const double size = 1 + magnitude(*array);
    CHECK(compare(trace.value(stage), expected, (dtype == mha::DType::f64 ? 1e-13 : 3e-6) * size) ==
          "");
    // What an operator of float16 inputs would put out.
    if (dtype == mha::DType::f16)
      CHECK(compare(mha::convert(trace.value(stage), dtype), expected, std::ldexp(size, -11)) ==
            "");
  }
}

} // namespace

TEST_CASE("the cases of ONNX's Attention operator give its outputs") {
  std::uint64_t seed = 0;
  for (const Case& c : cases)
    for (mha::DType dtype : {mha::DType::f32, mha::DType::f64, mha::DType::f16}) {
      const onnx::Inputs inputs = Maker(++seed, dtype).inputs(c);
      const LayerFile file = file_of(c, inputs, dtype);
      const mha::Layer layer = seed % 2 == 0 ? load_npz(file).layer : load_bound(file).layer;
      CHECK(layer.dtype == (dtype == mha::DType::f64 ? dtype : mha::DType::f32));
      require_same(c, onnx::attention(inputs, attributes_of(c)), layer, dtype);
    }
}

TEST_CASE("attention_3d_transpose_verification: the heads lie side by side") {
  onnx::Inputs in;
  in.Q = reference::Array({1, 2, 12});
  for (std::size_t i = 0; i < 24; ++i) in.Q.values[i] = static_cast<double>(i % 12 / 4 + 1);
  in.K = in.V = reference::Array({1, 2, 12}, 0.1);
  const Case c{.name = "attention_3d_transpose_verification", .rank = 3};
  const mha::Layer layer = load_npz(file_of(c, in, mha::DType::f64)).layer;
  const mha::Trace trace = mha::trace(layer, {mha::Stage::scores, mha::Stage::output});
  for (std::size_t h = 0; h < 3; ++h) // head h's queries are 1, 2, 3 four times
    CHECK(mha::value_at(trace.value(mha::Stage::scores), h * 4) ==
          Approx(0.4 * static_cast<double>(h + 1)));
  require_same(c, onnx::attention(in, attributes_of(c)), layer, mha::DType::f64);
}

TEST_CASE("attributes of ONNX's Attention that say nothing about a layer are passed over") {
  const Case c{.name = "attention_4d"};
  LayerFile file = file_of(c, Maker(1, mha::DType::f32).inputs(c), mha::DType::f32);
  for (const char* name : {"softmax_precision", "qk_matmul_output_mode"})
    file.settings.emplace_back(name, "1");
  const mha::LoadedLayer loaded = load_npz(file);
  CHECK(loaded.layer.dims.H == 3);
  CHECK(loaded.notes.size() == 2);
}
