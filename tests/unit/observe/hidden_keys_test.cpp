#include <mha/observe/hidden_keys.hpp>
#include <mha/observe/pool.hpp>
#include <mha/observe/several.hpp>

#include <mha/load/assemble.hpp>
#include <mha/observe/compute.hpp>

#include "support/library_input.hpp"

#include <catch2/catch.hpp>
#include <zlib.h>

using namespace mha;

namespace {

/// Whether key k is hidden from query t, as a page's reader finds it.
struct Bits {
  std::string bytes;
  std::size_t row_bytes = 0;
  bool at(std::size_t t, std::size_t k) const {
    return (static_cast<unsigned char>(bytes[t * row_bytes + k / 8]) >> k % 8 & 1) != 0;
  }
};
Bits unpacked(const PackedStage& stage, std::size_t head) {
  Bits bits{{}, (stage.cols + 7) / 8};
  uLongf length = bits.row_bytes * stage.rows;
  bits.bytes.resize(length);
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(bits.bytes.data()), &length,
                     reinterpret_cast<const Bytef*>(stage.heads[head].data()),
                     stage.heads[head].size()) == Z_OK);
  REQUIRE(length == bits.bytes.size());
  return bits;
}

std::vector<std::size_t> all_heads(const Layer& layer) {
  std::vector<std::size_t> heads;
  for (std::size_t h = 0; h < layer.dims.H; ++h) heads.push_back(h);
  return heads;
}

/// The cells of a picture and the bits of a page, of one computation, are the same ones. Returns
/// how many are hidden.
std::size_t compared(const Layer& layer) {
  const Dims& dims = layer.dims;
  Pool pool(layer, Stage::weights, {}, {dims.T, dims.S_all});
  HiddenKeys hidden(layer, all_heads(layer), 0, std::size_t{1} << 30);
  Several all;
  all.add(pool), all.add(hidden);
  compute(layer, make_plan(layer, all.wants()), all);
  const PackedStage stage = hidden.bits().value();
  const std::vector<HiddenKeys::KeyRange> runs = hidden.runs();
  std::size_t count = 0;
  for (const PooledMap& map : pool.maps()) {
    if (map.batch != 0) continue;
    const Bits bits = unpacked(stage, map.head);
    for (std::size_t t = 0; t < dims.T; ++t)
      for (std::size_t k = 0; k < dims.S_all; ++k) {
        INFO("head " << map.head << " query " << t << " key " << k);
        CHECK(bits.at(t, k) == map.is_masked(t, k));
        if (!runs.empty()) CHECK(bits.at(t, k) == (k < runs[t].first || k >= runs[t].end));
        count += map.is_masked(t, k);
      }
  }
  CHECK(hidden.any() == (count > 0));
  return count;
}

Layer given_weights(const std::vector<double>& weights, bool causal) {
  NamedTensors parts;
  parts["weights"].tensor = Tensor::of<double>({1, 3, 3}, weights);
  Settings settings;
  settings.causal = causal;
  return make_layer(parts, settings);
}

} // namespace

TEST_CASE("hidden keys: the same cells in pictures and on pages, whatever masks them", "[packed]") {
  std::size_t hidden = 0;
  for (Variant variant :
       {Variant::causal, Variant::causal_bottom_right, Variant::window_left, Variant::kv_lengths,
        Variant::float_mask, Variant::infinite_mask, Variant::may_attend_mask, Variant::block_mask,
        Variant::padding, Variant::masked_nan, Variant::masked_uniform, Variant::bias,
        Variant::alibi_paper, Variant::past, Variant::extra_key, Variant::sinks})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      INFO(name_of(variant) << " " << seed);
      const std::vector<Variant> variants{variant};
      const RandomLayer random = random_layer(seed, variants, seed == 2);
      hidden += compared(library_layer(random.layer, random.form));
    }
  CHECK(hidden > 1000);
}

TEST_CASE("hidden keys: of saved maps, what causal hides and nothing was attended to", "[packed]") {
  CHECK(compared(given_weights({1, 0, 0, .5, .5, 0, .2, .3, .5}, true)) == 3);
  CHECK(compared(given_weights({1, 0, 0, .5, .5, 0, .2, .3, .5}, false)) == 0);
  // The map contradicts --causal: what is there is shown.
  CHECK(compared(given_weights({.5, .5, 0, .5, .5, 0, .2, .3, .5}, true)) == 2);
}

TEST_CASE("hidden keys: too many bits are not kept, runs are", "[packed]") {
  const Layer layer = given_weights({1, 0, 0, .5, .5, 0, .2, .3, .5}, true);
  HiddenKeys hidden(layer, {0}, 0, 2);
  compute(layer, make_plan(layer, hidden.wants()), hidden);
  CHECK_FALSE(hidden.bits().has_value());
  CHECK(hidden.runs() == std::vector<HiddenKeys::KeyRange>{{0, 1}, {0, 2}, {0, 3}});
}
