#include <mha/observe/hidden_keys.hpp>
#include <mha/observe/packed_rows.hpp>
#include <mha/observe/row_peaks.hpp>
#include <mha/observe/trace.hpp>

#include "support/library_input.hpp"

#include <catch2/catch.hpp>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

using namespace mha;

namespace {

constexpr std::size_t no_limit = std::size_t{1} << 40;

std::string inflated(const std::string& packed, std::size_t size) {
  std::string out(size, '\0');
  uLongf length = size;
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(out.data()), &length,
                     reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK);
  REQUIRE(length == size);
  return out;
}

/// Elements in planes from `offset` on.
template <class T>
std::vector<T> from_planes(const std::string& bytes, std::size_t offset, std::size_t count) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::array<char, sizeof(T)> element{};
    for (std::size_t byte = 0; byte < sizeof(T); ++byte)
      element[byte] = bytes[offset + byte * count + i];
    out[i] = std::bit_cast<T>(element);
  }
  return out;
}

/// The rows of one head as the reader of a page unpacks them.
template <class T> std::vector<double> unpacked(const PackedStage& stage, std::size_t head) {
  const std::size_t count = stage.rows * stage.cols;
  std::vector<double> values;
  if (stage.form == RowForm::exact) {
    for (T value : from_planes<T>(inflated(stage.heads[head], count * sizeof(T)), 0, count))
      values.push_back(static_cast<double>(value));
    return values;
  }
  const std::string bytes = inflated(stage.heads[head], stage.rows * 8 + count * 2);
  std::vector<float> scales(stage.rows * 2);
  std::memcpy(scales.data(), bytes.data(), stage.rows * 8);
  const std::vector<std::uint16_t> codes = from_planes<std::uint16_t>(bytes, stage.rows * 8, count);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = i / stage.cols;
    values.push_back(codes[i] == rounded_nan        ? std::nan("")
                     : codes[i] == rounded_infinity ? infinity
                     : codes[i] == rounded_minus_infinity
                         ? -infinity
                         : static_cast<double>(scales[2 * row]) +
                               codes[i] * static_cast<double>(scales[2 * row + 1]));
  }
  return values;
}

Layer layer_of(std::uint64_t seed, std::vector<Variant> variants, bool single) {
  const RandomLayer random = random_layer(seed, variants, single);
  return library_layer(random.layer, random.form);
}

PackedStage pack(const Layer& layer, Stage stage, RowForm form, std::size_t batch,
                 std::size_t threads = 1) {
  PackedRows rows(layer, {{stage, form}}, {}, batch, no_limit);
  compute(layer, make_plan(layer, rows.wants()), rows, threads);
  return rows.take(stage).value();
}

/// The kept value of one head of one item: rows × cols.
std::vector<double> traced(const Layer& layer, Stage stage, std::size_t batch, std::size_t head) {
  const Tensor all = trace(layer, {stage}).value(stage);
  const std::size_t items = layer.dims.batched ? layer.dims.B : 1;
  const std::size_t heads = all.shape()[layer.dims.batched ? 1 : 0];
  const std::size_t count = all.count() / items / heads;
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(value_at(all, (batch * heads + head) * count + i));
  return values;
}

template <class T> void check_packed(const Layer& layer, Stage stage) {
  for (std::size_t batch = 0; batch < layer.dims.B; ++batch)
    for (RowForm form : {RowForm::exact, RowForm::rounded}) {
      const PackedStage packed = pack(layer, stage, form, batch);
      for (std::size_t head = 0; head < packed.heads.size(); ++head) {
        const std::vector<double> got = unpacked<T>(packed, head);
        const std::vector<double> want = traced(layer, stage, batch, head);
        REQUIRE(got.size() == want.size());
        for (std::size_t row = 0; row < packed.rows; ++row) {
          double low = 0, high = 0;
          for (std::size_t i = row * packed.cols; i < (row + 1) * packed.cols; ++i)
            if (std::isfinite(want[i]))
              low = std::min(low, want[i]), high = std::max(high, want[i]);
          // Half a step, and the last bits of the float that the row starts from.
          const double off = form == RowForm::exact ? 0 : (high - low) * (0.5 / 65532 + 1e-7);
          for (std::size_t i = row * packed.cols; i < (row + 1) * packed.cols; ++i) {
            INFO(name_of(stage) << " head " << head << " element " << i);
            if (std::isfinite(want[i]))
              CHECK(std::abs(got[i] - want[i]) <= off);
            else
              CHECK((std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i]));
          }
        }
      }
    }
}

} // namespace

TEST_CASE("packed rows: exact ones have the bits of the stage, rounded ones 16 bits of their row",
          "[packed]") {
  const std::vector<std::vector<Variant>> mixes{
      {Variant::gqa, Variant::causal, Variant::rope_half},
      {Variant::cross, Variant::infinite_mask, Variant::masked_nan},
      {Variant::past, Variant::alibi_paper, Variant::extra_key},
      {Variant::columns, Variant::window_left}};
  std::uint64_t seed = 40;
  for (const std::vector<Variant>& mix : mixes)
    for (bool single : {false, true}) {
      const Layer layer = layer_of(++seed, mix, single);
      const StageSet available = available_stages(layer);
      for (Stage stage : {Stage::q, Stage::k_rope, Stage::v_all, Stage::masked, Stage::weights,
                          Stage::head_out}) {
        if (!contains(available, stage) || layer.settings.columns) continue;
        if (layer.dtype == DType::f64)
          check_packed<double>(layer, stage);
        else
          check_packed<float>(layer, stage);
      }
      if (layer.settings.columns) { // rows are queries there, too
        const PackedStage packed = pack(layer, Stage::weights, RowForm::exact, 0);
        CHECK(packed.rows == layer.dims.T);
        CHECK(packed.cols == layer.dims.S_all);
      }
    }
}

TEST_CASE("packed rows: the same bytes whatever the threads", "[packed]") {
  const auto several_blocks = [] { // sizes are drawn: the first seed that gives a long one
    for (std::uint64_t seed = 1;; ++seed) {
      const RandomLayer random = random_layer(seed, std::vector<Variant>{Variant::causal}, true,
                                              {.tokens = 700, .heads = 3});
      if (Layer layer = library_layer(random.layer, random.form); layer.dims.T > 520) return layer;
    }
  };
  const Layer layer = several_blocks();
  for (RowForm form : {RowForm::exact, RowForm::rounded})
    CHECK(pack(layer, Stage::weights, form, 0, 1).heads ==
          pack(layer, Stage::weights, form, 0, 4).heads);
}

TEST_CASE("packed rows: a selection keeps its heads, and the key/value heads that they read",
          "[packed]") {
  const Layer layer = layer_of(3, {Variant::gqa}, false);
  REQUIRE(layer.dims.H > layer.dims.H_kv);
  Selection selection;
  selection.head = IndexList(std::to_string(layer.dims.H - 1), "--head");
  PackedRows rows(layer, {{Stage::weights, RowForm::exact}, {Stage::v, RowForm::exact}}, selection,
                  0, no_limit);
  compute(layer, make_plan(layer, rows.wants(), selection), rows);
  const PackedStage weights = rows.take(Stage::weights).value(), v = rows.take(Stage::v).value();
  REQUIRE(weights.heads.size() == 1);
  REQUIRE(v.heads.size() == 1);
  CHECK(unpacked<double>(weights, 0) == traced(layer, Stage::weights, 0, layer.dims.H - 1));
  CHECK(unpacked<double>(v, 0) == traced(layer, Stage::v, 0, layer.dims.H_kv - 1));
}

TEST_CASE("packed rows: nothing is kept of a stage beyond the limit", "[packed]") {
  const Layer layer = layer_of(5, {}, false);
  PackedRows rows(layer, {{Stage::weights, RowForm::exact}}, {}, 0, 10);
  compute(layer, make_plan(layer, rows.wants()), rows);
  CHECK_FALSE(rows.take(Stage::weights).has_value());
}

TEST_CASE("row peaks: the largest weights of each row and their keys, NaN before all", "[packed]") {
  for (Variant variant : {Variant::causal, Variant::masked_nan}) {
    const Layer layer = layer_of(11, {variant, Variant::block_mask}, false);
    const std::size_t T = layer.dims.T, S = layer.dims.S_all, kept = std::min<std::size_t>(S, 3);
    std::vector<std::size_t> heads{layer.dims.H - 1};
    RowPeaks peaks(layer, heads, 0, kept);
    compute(layer, make_plan(layer, peaks.wants()), peaks);
    const PackedStage packed = peaks.largest(no_limit).value();
    REQUIRE(packed.heads.size() == 1);
    const std::string bytes = inflated(packed.heads[0], T * kept * 8);
    const std::vector<std::uint32_t> keys = from_planes<std::uint32_t>(bytes, 0, T * kept);
    const std::vector<float> numbers = from_planes<float>(bytes, T * kept * 4, T * kept);
    const std::vector<double> want = traced(layer, Stage::weights, 0, layer.dims.H - 1);
    for (std::size_t t = 0; t < T; ++t) {
      std::vector<double> row(want.begin() + static_cast<std::ptrdiff_t>(t * S),
                              want.begin() + static_cast<std::ptrdiff_t>((t + 1) * S));
      for (std::size_t i = 0; i < kept; ++i) {
        const double value = row[keys[t * kept + i]];
        INFO("query " << t << ", place " << i);
        if (std::isnan(value)) {
          CHECK(std::isnan(numbers[t * kept + i]));
        } else {
          CHECK(numbers[t * kept + i] == static_cast<float>(value));
          for (double other : row) CHECK_FALSE(other > value);
        }
        row[keys[t * kept + i]] = -1; // taken
      }
    }
  }
}

TEST_CASE("hidden keys: one run of visible ones a query, or nothing where there are gaps",
          "[packed]") {
  const auto runs_of = [](const Layer& layer) {
    std::vector<std::size_t> heads(layer.dims.H);
    for (std::size_t h = 0; h < heads.size(); ++h) heads[h] = h;
    HiddenKeys hidden(layer, heads, 0, no_limit);
    compute(layer, make_plan(layer, hidden.wants()), hidden);
    return hidden.runs();
  };
  const Layer layer = layer_of(19, {Variant::causal, Variant::window_left}, false);
  const std::vector<HiddenKeys::KeyRange> runs = runs_of(layer);
  REQUIRE(runs.size() == layer.dims.T);
  const std::vector<double> masked = traced(layer, Stage::masked, 0, 0);
  for (std::size_t t = 0; t < layer.dims.T; ++t)
    for (std::size_t k = 0; k < layer.dims.S_all; ++k) {
      const bool hidden = std::isinf(masked[t * layer.dims.S_all + k]);
      CHECK(hidden == (k < runs[t].first || k >= runs[t].end));
    }
  bool gaps = false; // some random mask has gaps
  for (std::uint64_t seed = 20; seed < 30; ++seed)
    gaps = gaps || runs_of(layer_of(seed, {Variant::block_mask}, false)).empty();
  CHECK(gaps);
}
