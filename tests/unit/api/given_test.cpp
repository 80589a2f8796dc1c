// What a program gives is checked where it comes in: settings as members, arrays of no elements,
// null pointers, places of the whole model, numbers that are none.

#include "unit/api/layers.hpp"

#include <mha/xtensor.hpp>

#include <cmath>
#include <limits>
#include <utility>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

template <class I>
concept TokensOf = requires(const Model& model, const std::vector<I>& ids) {
  model.tokens(ids);
};

template <class I>
concept NamesPlaces = std::constructible_from<Indexes, I> && std::constructible_from<LayerId, I> &&
    requires(const Run& run, I one) {
  run.resid(one);
};

constexpr double infinite = std::numeric_limits<double>::infinity();

/// The doubts among notes, a line each.
std::string doubts(const std::vector<Note>& notes) {
  std::string lines;
  for (const Note& note : notes)
    if (note.is_warning()) lines += note.text + "\n";
  return lines;
}

} // namespace

static_assert(TokensOf<std::int8_t> && TokensOf<std::uint16_t> && !TokensOf<char> &&
                  !TokensOf<bool>,
              "characters are a text, no token numbers");
static_assert(NamesPlaces<std::int8_t> && NamesPlaces<std::uint64_t> && !NamesPlaces<char> &&
                  !NamesPlaces<bool>,
              "whole numbers are positions");

TEST_CASE("api: settings that are members are checked as those that are text", "[api]") {
  const auto check_refused = [](Settings settings, const std::string& expected) {
    INFO(expected);
    CHECK_THAT(error_of([&] { layer(small_tensors(), std::move(settings)); }), Contains(expected));
  };
  check_refused({.rope = static_cast<Rope>(77)},
                "rope is 77: one of none, half, interleaved expected");
  check_refused({.alibi = static_cast<Alibi>(9)},
                "alibi is 9: one of false, true, bloom, falcon, mpt expected");
  check_refused({.scale = static_cast<ScaleKind>(50)}, "scale is ScaleKind(50): a number, d_k");
  check_refused({.scale = ScaleKind::number, .scale_value = std::nan("")},
                "scale is nan: a number, d_k");
  check_refused({.softcap = infinite}, "softcap is inf: a number expected");
  check_refused({.rope_base = -1}, "rope_base is -1: a positive number expected");
  check_refused({.window_left = -5}, "window_left is -5: a number of keys, or -1 for no bound");
  check_refused({.num_heads = std::numeric_limits<std::size_t>::max()},
                "num_heads is 18446744073709551615: a whole number up to 10^15 expected");
  check_refused({.qkv_order = static_cast<QkvOrder>(7)}, "qkv_order is 7: one of qkv");
  // Every default is one, and what a setting prints of itself is read back.
  Settings settings;
  for (const SettingInfo& info : settings_table())
    CHECK_NOTHROW(set(settings, info.name, info.get(Settings()), "default"));
  set(settings, "rope_offset", "7", "here");
  CHECK(settings.rope_offset == 7);
  set(settings, "rope_offset", "past", "here");
  CHECK(!settings.rope_offset);
  CHECK_THAT(error_of([&] { layer(small_tensors(), {.num_heads = 2}, {.naming = "gpt9"}); }),
             Contains("naming is gpt9: tensors that are given by name have the names of"));
}

TEST_CASE("api: an array of no elements has its shape", "[api]") {
  const std::vector<float> none;
  const xt::xtensor<float, 2> no_rows = xt::zeros<float>({0, 4});
  for (const Tensor& empty : {tensor(none, {0, 4}), borrowed(std::span<const float>(none), {0, 4}),
                              borrowed(none.data(), {0, 4}, {4, 1}), tensor(no_rows),
                              borrowed(no_rows), Tensor(DType::f32, {0, 4})}) {
    CHECK((!empty.empty() && empty.shape() == Shape{0, 4} && empty.as<float>().empty()));
    Tensors tensors = small_tensors();
    tensors[0].second = empty;
    const Cache cache = run(layer(tensors, {.num_heads = 2}));
    CHECK(cache.tensor("q").shape() == Shape{2, 0, 3});
    CHECK(cache.tensor("weights").shape() == Shape{2, 0, 0});
  }
  Tensors tensors = small_tensors();
  tensors[0].second = tensor(none, {5, 0});
  CHECK_THAT(error_of([&] { layer(tensors, {.num_heads = 2}); }), Contains("X has 0 columns"));
  CHECK(Tensor().empty());
}

TEST_CASE("api: a null pointer is no text", "[api]") {
  const char* none = nullptr;
  CHECK(error_of([&] { Patch{none}; }) == "a null pointer is not a text");
  CHECK(error_of([&] { LayerId{none}; }) == "a null pointer is not a text");
}

TEST_CASE("model: a place of the whole model has no layer", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Run run = model.run(model.tokens({5, 6, 7}), {.keep = {"logits"}});
  const std::string of_model = "logits is of the whole model, and of no layer";
  CHECK_THAT(error_of([&] { (void)Patch::zero({.stage = Stage::logits, .layer = 1}); }),
             Contains("layers.1.logits: " + of_model));
  CHECK_THAT(error_of([&] { (void)Patch("layers.1.logits = zero"); }), Contains(of_model));
  CHECK_THAT(error_of([&] { (void)run.tensor(At{.stage = Stage::logits, .layer = 1}); }),
             Contains(of_model));
  CHECK(same_bits(run.tensor(At{.stage = Stage::logits}), run.tensor("logits")));
}

TEST_CASE("model: numbers of patches and weights that are not finite are in doubt",
          "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Run clean = model.run(model.tokens({5, 6, 7}));
  CHECK(doubts(clean.notes()).empty());
  const Tensor two = tensor(std::vector<double>{1, std::nan("")}, {2});
  struct Case {
    Patch patch;
    std::string doubt;
  };
  for (const Case& one :
       {Case{"layers.0.q[0] = nan", "layers.0.q[0] = nan: the value has 1 NaN of 1 numbers"},
        Case{Patch::set({.stage = Stage::v, .layer = 2, .columns = {0, 1}}, two),
             "the value has 1 NaN of 2 numbers, the first at [1]"},
        Case{Patch::add({Stage::resid_post, 1}, 1e300), // more than float32 holds
             "the value has 1 infinite of 1 numbers"},
        Case{Patch::rows("layers.1.v[0,0]",
                         [](Place, const Tensor& row) {
                           return tensor(std::vector<double>(row.count(), std::nan("")),
                                         row.shape());
                         }),
             "the value has"}}) {
    INFO(one.doubt);
    const Run changed = clean.with({one.patch});
    CHECK_THAT(doubts(changed.notes()), Contains(one.doubt));
    CHECK_THAT(doubts(model.run(clean.tokens(), {.patches = {one.patch}}).notes()),
               Contains(one.doubt));
    CHECK_THAT(doubts(changed.with({"layers.3.q *= 2"}).notes()), Contains(one.doubt));
  }
  // A score of −∞ hides a key, and is what was meant.
  CHECK(doubts(clean.with({"layers.0.scores[0,2,0] = -inf"}).notes()).empty());
  const Model lost = model.with("layers.0.W_o", tensor(std::vector<float>(96 * 96, NAN), {96, 96}));
  CHECK_THAT(doubts(lost.notes()), Contains("layers.0.W_o has 9216 NaN of 9216 numbers"));
  CHECK_THAT(doubts(lost.run(lost.tokens({5, 6})).notes()), Contains("layers.0.W_o has"));
  CHECK(doubts(model.notes()).empty());
}
