#include "support/library_input.hpp"
#include "support/sanitizers.hpp"
#include <mha/bench/work.hpp>
#include <mha/heads/measures.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>
#include <mha/tensor/storage.hpp>

#include <catch2/catch.hpp>

#include <numeric>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <sys/mman.h>
#include <unistd.h>

// A text of a batch costs what it costs alone and has the bits of its lone run, however long its
// neighbours are: padding is neither computed nor read.

namespace {

using reference::Array;

/// [first, first + count) along an axis that is longer than 1.
Array cut(const Array& array, std::size_t axis, std::size_t first, std::size_t count) {
  if (array.empty() || array.shape[axis] == 1) return array;
  reference::Shape shape = array.shape;
  count = std::min(count, shape[axis] - first);
  std::size_t outer = 1, inner = 1;
  for (std::size_t a = 0; a < axis; ++a) outer *= shape[a];
  for (std::size_t a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  const std::size_t before = shape[axis];
  shape[axis] = count;
  Array part(shape);
  for (std::size_t i = 0; i < outer; ++i)
    std::copy_n(array.values.begin() + static_cast<std::ptrdiff_t>((i * before + first) * inner),
                count * inner,
                part.values.begin() + static_cast<std::ptrdiff_t>(i * count * inner));
  return part;
}

/// Batch item b with its first n tokens, as if it had come alone.
reference::Layer lone_of(const reference::Layer& batch, std::size_t b, std::size_t n) {
  reference::Layer lone = batch;
  const std::size_t keys = batch.P() + n;
  lone.X = cut(cut(batch.X, 0, b, 1), 1, 0, n);
  if (!batch.positions.empty())
    lone.positions = cut(batch.positions, batch.positions.shape.size() - 1, 0, n);
  lone.k_past = cut(batch.k_past, 0, b, 1), lone.v_past = cut(batch.v_past, 0, b, 1);
  for (Array* mask : {&lone.mask, &lone.blocked, &lone.bias})
    *mask = cut(cut(cut(*mask, 0, b, 1), 2, 0, n), 3, 0, keys);
  const bool current = !batch.padding.empty() && batch.padding.shape[1] == batch.S();
  lone.padding = cut(cut(batch.padding, 0, b, 1), 1, 0, current ? n : keys);
  return lone;
}

struct Batch {
  RandomLayer drawn;
  std::vector<std::size_t> lengths;
  mha::Layer layer;
};

bool is_batch_of_texts(const RandomLayer& drawn) {
  const reference::Layer& layer = drawn.layer;
  const bool extra = !layer.k_extra.empty() || layer.zero_key;
  const bool masks = !layer.mask.empty() || !layer.blocked.empty() || !layer.padding.empty() ||
                     !layer.bias.empty() || layer.masked_rows != reference::MaskedRows::zero;
  return drawn.form.batched && layer.B() > 1 && layer.T() > 1 && layer.X_k.empty() &&
         layer.X_v.empty() && layer.kv_lengths.empty() && !(extra && masks);
}

/// Texts of several lengths, with NaN where padding is.
Batch batch_of(RandomLayer drawn, Random& random) {
  drawn.form.columns = drawn.form.short_masks = false;
  Batch batch{std::move(drawn), {}, {}};
  const reference::Layer& layer = batch.drawn.layer;
  batch.layer = library_layer(layer, batch.drawn.form);
  for (std::size_t b = 0; b < layer.B(); ++b) batch.lengths.push_back(random.count(1, layer.T()));
  batch.layer.lengths = batch.lengths;
  mha::Tensor& X = batch.layer.X;
  const std::size_t T = layer.T(), row = X.bytes() / layer.B() / T;
  for (std::size_t b = 0; b < layer.B(); ++b)
    std::memset(X.raw_mutable() + (b * T + batch.lengths[b]) * row, 0xff,
                (T - batch.lengths[b]) * row);
  return batch;
}

std::vector<mha::Stage> stages_of(const mha::Layer& layer) {
  std::vector<mha::Stage> list;
  const mha::StageSet available = mha::available_stages(layer);
  for (const mha::StageInfo& info : mha::stages())
    if (contains(available, info.stage)) list.push_back(info.stage);
  return list;
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// What of item b in a stage is not as the lone run, or in its padding not as it is to be.
std::size_t wrong_numbers(const Batch& batch, std::size_t b, mha::Stage stage,
                          const mha::Tensor& all, const mha::Tensor& lone) {
  const mha::StageInfo& info = mha::info_of(stage);
  const mha::Dims& dims = batch.layer.dims;
  const std::size_t n = batch.lengths[b], keys = dims.past + n;
  const bool extra = dims.extra + dims.zero > 0;
  const mha::Tensor item = all.at(b), own = lone.at(0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < item.count(); ++i) {
    std::size_t place = i, from = 0, stride = 1;
    bool padding = false;
    for (std::size_t axis = info.letters.size(); axis-- > 0;) {
      const mha::Dim dim = info.letters[axis];
      std::size_t index = place % item.shape()[axis];
      place /= item.shape()[axis];
      if (dim == mha::Dim::T || dim == mha::Dim::S) padding |= index >= n;
      if (dim == mha::Dim::S_all && index >= keys) {
        padding |= index < dims.past + dims.S;
        index -= dims.S - n;
      }
      from += index * stride, stride *= own.shape()[axis];
    }
    const double value = value_at(item, i);
    if (padding && extra && stage == mha::Stage::biased)
      continue; // their position bias is added before the mask
    if (padding)
      wrong += !(value == 0 || std::isnan(value) || value < -std::numeric_limits<double>::max());
    else
      wrong += !same_bits(value, value_at(own, from));
  }
  return wrong;
}

void require_lone_bits(std::size_t tokens, std::size_t batches) {
  Limits limits;
  limits.tokens = tokens;
  if (tokens > 9) limits.heads = 3, limits.width = 24, limits.d_model = 70;
  std::size_t found = 0;
  for (std::uint64_t seed = 7000 * tokens; found < batches; ++seed) {
    RandomLayer drawn = random_layer(seed, random_variants(seed, 0, 4), seed % 2 == 0, limits);
    if (!is_batch_of_texts(drawn)) continue;
    ++found;
    Random random(seed);
    const Batch batch = batch_of(std::move(drawn), random);
    const std::vector<mha::Stage> stages = stages_of(batch.layer);
    const mha::Trace all = mha::trace(batch.layer, stages, {}, 1 + found % 3);
    for (std::size_t b = 0; b < batch.lengths.size(); ++b) {
      const mha::Layer lone =
          library_layer(lone_of(batch.drawn.layer, b, batch.lengths[b]), batch.drawn.form);
      const mha::Trace own = mha::trace(lone, stages, {}, 1);
      for (mha::Stage stage : stages) {
        INFO(batch.drawn.description << " seed " << seed << ", item " << b << " of "
                                     << batch.lengths[b] << " tokens: " << name_of(stage));
        CHECK(wrong_numbers(batch, b, stage, all.value(stage), own.value(stage)) == 0);
      }
    }
  }
}

/// Texts of these lengths as one layer.
Batch batch_of_lengths(const std::vector<std::size_t>& lengths) {
  Limits limits;
  limits.heads = 4, limits.width = 16, limits.d_model = 32, limits.tokens = 2;
  for (std::uint64_t seed = 1;; ++seed) {
    RandomLayer drawn = random_layer(seed, {}, true, limits);
    reference::Layer& layer = drawn.layer;
    if (layer.H < 2 || !layer.X_k.empty() || !layer.X_v.empty()) continue;
    layer.X = Array({lengths.size(), *std::ranges::max_element(lengths), layer.X.shape[2]});
    Random random(seed);
    for (double& value : layer.X.values) value = static_cast<float>(random.uniform(-1, 1));
    layer.causal = true, drawn.form.batched = true, drawn.form.columns = false;
    Batch batch{drawn, lengths, library_layer(layer, drawn.form)};
    batch.layer.lengths = lengths;
    return batch;
  }
}

double operations(const mha::Layer& layer, const mha::StageSet& wanted) {
  const mha::StageWork work = mha::work_of(layer, mha::make_plan(layer, wanted));
  return std::accumulate(work.begin(), work.end(), 0.0,
                         [](double sum, const mha::Work& stage) { return sum + stage.operations; });
}

} // namespace

TEST_CASE("padding: every stage of every text has the bits of its lone run") {
  require_lone_bits(9, sanitized ? 20 : 150);
  require_lone_bits(320, sanitized ? 1 : 6);
  require_lone_bits(700, sanitized ? 1 : 4);
}

TEST_CASE("padding: texts take the operations that they take alone") {
  const std::vector<std::size_t> lengths{5, 700, 1, 257, 12};
  const Batch batch = batch_of_lengths(lengths);
  for (const mha::StageSet& wanted :
       {mha::StageSet{mha::Stage::output}, mha::StageSet{mha::Stage::scores, mha::Stage::weights},
        mha::StageSet{mha::Stage::head_result}}) {
    double alone = 0;
    for (std::size_t b = 0; b < lengths.size(); ++b)
      alone += operations(
          library_layer(lone_of(batch.drawn.layer, b, lengths[b]), batch.drawn.form), wanted);
    CHECK(operations(batch.layer, wanted) == alone);
  }
}

TEST_CASE("padding: what is measured of a text is what is measured of it alone") {
  const std::vector<std::size_t> lengths{6, 600, 30};
  const Batch batch = batch_of_lengths(lengths);
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    mha::MeasureRequest request;
    request.selection.batch = mha::IndexList(std::to_string(b), "--batch");
    const mha::LayerMeasures there = mha::measure_heads(batch.layer, request);
    const mha::LayerMeasures alone = mha::measure_heads(
        library_layer(lone_of(batch.drawn.layer, b, lengths[b]), batch.drawn.form));
    REQUIRE(there.heads.size() == alone.heads.size());
    for (std::size_t h = 0; h < alone.heads.size(); ++h)
      for (const mha::Measure& measure : mha::measures()) {
        if (measure.name == "max_batch") continue;
        const std::optional<double> value = measure.of(there.heads[h]),
                                    want = measure.of(alone.heads[h]);
        INFO("text " << b << ", head " << h << ": " << measure.name);
        REQUIRE(value.has_value() == want.has_value());
        if (want && !std::isnan(*want)) CHECK(*value == Approx(*want).epsilon(1e-9).margin(1e-9));
      }
  }
}

TEST_CASE("padding: memory for it is not taken") {
  constexpr std::size_t rows = 64, row = 1 << 20;
  mha::Tensor tensor = mha::sparse_zeros(mha::DType::f32, {rows, row / sizeof(float)});
  for (std::size_t i = 0; i < rows; ++i) tensor.as_mutable<float>()[i * row / sizeof(float)] = 1;
  if (sanitized) return; // their memory is malloc's
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(tensor.bytes() / page);
  REQUIRE(mincore(tensor.raw_mutable(), tensor.bytes(), resident.data()) == 0);
  const auto taken = std::ranges::count_if(resident, [](unsigned char in) { return in & 1; });
  CHECK(taken >= static_cast<std::ptrdiff_t>(rows));
  CHECK(taken <= static_cast<std::ptrdiff_t>(rows) * 16); // the system may take a few at once
}
