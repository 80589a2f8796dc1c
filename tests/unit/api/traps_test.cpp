// Traps closed: types, lifetimes, memory that others keep, the host's floating-point environment.

#include "unit/api/layers.hpp"

#include <mha/xtensor.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

#include <cfenv>
#include <numeric>
#include <thread>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

template <class T>
concept ReadAsFloats = requires(T&& tensor) {
  std::forward<T>(tensor).template as<float>();
};
template <class T>
concept Borrowed = requires(T&& array) {
  borrowed(std::forward<T>(array));
};

} // namespace

static_assert(ReadAsFloats<Tensor&> && ReadAsFloats<const Tensor&>);
static_assert(!ReadAsFloats<Tensor> && !ReadAsFloats<const Tensor>, "no view of a temporary");
static_assert(Borrowed<xt::xarray<float>&> && !Borrowed<xt::xarray<float>>);
static_assert(std::is_same_v<Values<float, 2>::inner_shape_type, std::array<std::size_t, 2>>);

TEST_CASE("api: a tensor is read as what it is", "[api]") {
  const Tensor whole = tensor(std::vector<std::int32_t>{1, 2, 3}, {3});
  CHECK(whole.as<std::int32_t>()[1] == 2);
  CHECK(error_of([&] { (void)whole.as<float>(); }) ==
        "the tensor (3,) is int32, and is read as float32: read it as int32, or mha::convert it");
  CHECK_THAT(error_of([&] { (void)whole.as<std::uint32_t>(); }), Contains("read as uint32"));
  const Tensor half = convert(numbers({4}, 1), DType::bf16);
  CHECK(half.as<std::uint16_t>().size() == 4);
  CHECK_THAT(error_of([&] { (void)half.as<std::int16_t>(); }), Contains("its bits (uint16)"));
  const Tensor flags(DType::boolean, {2});
  CHECK((flags.as<bool>().size() == 2 && flags.as<std::uint8_t>().size() == 2));
  CHECK_THAT(error_of([&] { (void)flags.as<std::int8_t>(); }), Contains("is bool"));
}

TEST_CASE("api: results are not written through", "[api]") {
  const Cache cache = run(small_layer());
  const Model model(data("bard-gpt2"));
  const Run run = model.run(model.tokens({5, 6, 7}), {.keep = {"layers.0.q"}});
  for (Tensor result : {cache.tensor("weights"), cache.tensor("weights").reshaped({50}),
                        cache.tensor("weights").at(1), run.tensor("q"), run.resid(1), run.logits(),
                        model.weight("layers.0.W_o")}) {
    CHECK_THAT(error_of([&] { (void)result.as_mutable<float>(); }), Contains("read-only"));
    Tensor copy = result;
    CHECK_THAT(error_of([&] { (void)copy.raw_mutable(); }), Contains("read-only"));
  }
  Tensor own(DType::f32, {2, 3}); // its maker's
  own.as_mutable<float>()[5] = 1;
  CHECK(own.as<float>()[5] == 1);
}

TEST_CASE("api: what temporaries hold outlives them where it is handed out", "[api]") {
  const Model model(data("bard-gpt2"));
  std::vector<int> ids;
  for (const int id : model.run(model.tokens({5, 6, 7})).tokens().ids()) ids.push_back(id);
  CHECK(ids == std::vector<int>{5, 6, 7});
  std::size_t product = 1;
  for (const std::size_t length : run(small_layer()).tensor("weights").shape()) product *= length;
  CHECK(product == 50);
  for (const Note& note : model.run(model.tokens({5, 6})).notes()) CHECK(!note.text.empty());
  const Run run = [] {
    const Model inner(data("bard-gpt2")); // a run shares its model
    return inner.run(inner.tokens({5, 6}));
  }();
  CHECK(run.with({"layers.1.q = zero"}).logits().shape()[0] == 2);
}

TEST_CASE("api: only float32 and float64 are computed in", "[api]") {
  for (const DType dtype : {DType::i32, DType::f16, DType::bf16, DType::boolean, DType::u8}) {
    INFO(name_of(dtype));
    const std::string expected =
        fmt::format("dtype is {}: layers are computed in float32 or float64", name_of(dtype));
    CHECK(error_of([&] { layer(small_tensors(), {.num_heads = 2}, {.dtype = dtype}); }) ==
          expected);
    CHECK_THAT(error_of([&] { Model(data("bard-gpt2"), {.dtype = dtype}); }),
               Contains("float32 or float64"));
    CHECK_THAT(error_of([&] {
                 load(data("induction"), 1, {{"X", numbers({5, 64}, 1)}}, {.dtype = dtype});
               }),
               Contains("float32 or float64"));
  }
  // Whole numbers are numbers: 3 is 3.
  Tensors tensors = small_tensors();
  std::vector<std::int32_t> three(20, 3);
  tensors[0].second = tensor(three, {5, 4});
  const Tensor x = run(layer(tensors, {.num_heads = 2}), {Stage::x}).tensor("x");
  CHECK(value_at(x, 7) == 3);
}

TEST_CASE("api: a checkpoint's layer with a stream has what follows the attention", "[api]") {
  const Model model(data("bard-gpt2"));
  const Run run = model.run(model.tokens("The king"), {.keep = {"layers.1.resid_post"}});
  for (const Layer& layer : {load(data("bard-gpt2"), 1, {{"X", run.resid(1)}}),
                             load(data("bard-gpt2"), 1, {{"X", run.resid(1)}},
                                  {.settings = {{"input_norm", "checkpoint"}}})})
    CHECK(same_bits(mha::run(layer, {Stage::resid_post}).tensor("resid_post"),
                    run.tensor("layers.1.resid_post")));
  // One that is normalised already has the attention alone.
  const Layer normalised =
      load(data("bard-gpt2"), 1, {{"X", run.resid(1)}}, {.settings = {{"input_norm", "none"}}});
  CHECK_THAT(error_of([&] { mha::run(normalised, {Stage::resid_post}); }),
             Contains("has no resid_post"));
}

TEST_CASE("api: memory that a program keeps is used where it lies", "[api]") {
  std::vector<float> memory(60);
  std::iota(memory.begin(), memory.end(), 0.F);
  const auto at = [&](const Tensor& tensor, std::size_t i) { return value_at(tensor, i); };
  const Tensor plain = borrowed(std::span<const float>(memory), {3, 4, 5});
  CHECK(plain.raw() == static_cast<const void*>(memory.data()));
  CHECK(borrowed(memory.data(), {12, 5}, {5, 1}).raw() == plain.raw());
  CHECK(borrowed(memory.data(), {1, 60}, {7, 1}).raw() == plain.raw()); // one row has no stride
  const Tensor turned = borrowed(memory.data(), {5, 12}, {1, 5});
  REQUIRE(turned.stored());
  CHECK(turned.stored()->matrix.raw() == plain.raw());
  struct Case {
    Shape shape;
    std::vector<std::ptrdiff_t> strides;
    std::ptrdiff_t first;
  };
  for (const Case& one : {Case{{5, 12}, {1, 5}, 0}, Case{{3, 2}, {20, 3}, 4}, Case{{4}, {-7}, 59},
                          Case{{3, 4}, {0, 1}, 8}, Case{{5, 3, 4}, {1, 20, 5}, 0},
                          Case{{2, 3}, {-3, -1}, 40}, Case{{}, {}, 17}}) {
    INFO(to_string(one.shape));
    const Tensor seen = borrowed(memory.data() + one.first, one.shape, one.strides);
    REQUIRE(seen.shape() == one.shape);
    for (std::size_t i = 0; i < seen.count(); ++i) {
      std::ptrdiff_t place = one.first;
      std::size_t rest = i;
      for (std::size_t axis = one.shape.size(); axis-- > 0; rest /= one.shape[axis])
        place += static_cast<std::ptrdiff_t>(rest % one.shape[axis]) * one.strides[axis];
      CHECK(at(seen, i) == memory[static_cast<std::size_t>(place)]);
    }
  }
  CHECK(borrowed(memory.data(), {0, 4}, {4, 1}).count() == 0);
  CHECK_THAT(error_of([&] { borrowed(memory.data(), {2, 3}, {3}); }), Contains("1 strides"));
  CHECK_THAT(error_of([&] { borrowed(std::span<const float>(memory), {7}); }),
             Contains("60 values do not fill"));
  // An owner lives as long as the last tensor.
  const auto owner = std::make_shared<std::vector<double>>(6, 2.5);
  const std::weak_ptr<std::vector<double>> watch = owner;
  std::optional<Tensor> kept = borrowed(
      DType::f64, reinterpret_cast<const std::byte*>(owner->data()), {2, 3}, {3, 1}, owner);
  CHECK(watch.use_count() == 2);
  kept.reset();
  CHECK(watch.use_count() == 1);
}

TEST_CASE("api: a layer of borrowed and of transposed memory has the same bits", "[api]") {
  const Tensors own = small_tensors();
  const Tensor expected = run(small_layer()).tensor("output");
  Tensors lent;
  std::vector<std::vector<float>> turned;
  turned.reserve(own.size());
  for (const auto& [name, value] : own) {
    const std::size_t rows = value.shape()[0], cols = value.shape()[1];
    std::vector<float>& columns = turned.emplace_back(rows * cols);
    for (std::size_t i = 0; i < value.count(); ++i)
      columns[i % cols * rows + i / cols] = value.as<float>()[i];
    lent.emplace_back(
        name, borrowed(columns.data(), {rows, cols}, {1, static_cast<std::ptrdiff_t>(rows)}));
  }
  const Layer layer = mha::layer(lent, {.num_heads = 2, .causal = true});
  CHECK(same_bits(run(layer).tensor("output"), expected));
  // xtensor's arrays and views.
  const xt::xtensor<float, 2> x = xt::arange(20.F).reshape({5, 4});
  const xt::xtensor<float, 2, xt::layout_type::column_major> by_columns = x;
  CHECK(borrowed(x).raw() == static_cast<const void*>(x.data()));
  const auto view = xt::view(x, xt::range(1, 4), xt::range(1, 3));
  const Tensor seen = borrowed(view), columns = borrowed(by_columns);
  CHECK((seen.shape() == Shape{3, 2} && columns.shape() == Shape{5, 4}));
  for (std::size_t i = 0; i < 6; ++i) CHECK(value_at(seen, i) == x(1 + i / 2, 1 + i % 2));
  for (std::size_t i = 0; i < 20; ++i) CHECK(value_at(columns, i) == x(i / 4, i % 4));
}

TEST_CASE("api: axes in the type", "[api]") {
  const Cache cache = run(small_layer());
  const auto weights = cache.get<float, 3>("weights");
  static_assert(
      std::is_same_v<std::remove_cvref_t<decltype(weights.shape())>, std::array<std::size_t, 3>>);
  CHECK(weights(1, 4, 2) == cache["weights"](1, 4, 2));
  CHECK(weights.data() == cache["weights"].data());
  CHECK(error_of([&] { cache.get<float, 2>("weights"); }) == "weights is (2, 5, 5): 3 axes, not 2");
  CHECK((cache.get<float, 2>(Stage::row_max).shape()[1] == 5));
  double sum = 0;
  each(small_layer(), Stage::weights, [&](Place place, auto rows) {
    static_assert(std::is_same_v<decltype(rows), Values<float, 2>>);
    for (std::size_t t = 0; t < place.count; ++t) sum += rows(t, 0);
  });
  CHECK(sum == Approx(xt::sum(xt::view(cache["weights"], xt::all(), xt::all(), 0))()));
  std::size_t columns = 0; // a row value has one column
  each(small_layer(), Stage::row_sum, [&](Place, auto rows) { columns += rows.shape()[1]; });
  CHECK(columns == 2);
  const Model model(data("bard-gpt2"));
  const Run run = model.run(model.tokens({5, 6}), {.keep = {"layers.1.weights"}});
  CHECK((run.get<float, 3>("weights").shape()[1] == 2));
}

TEST_CASE("api: the host's rounding does not change a bit, and stays the host's", "[api]") {
  // Numbers whose products are below 2⁻¹²⁶, which flushing to zero would lose.
  Tensors tensors = small_tensors();
  Tensor tiny = Tensor::uninitialised(DType::f32, {5, 4});
  for (std::size_t i = 0; i < 20; ++i)
    tiny.as_mutable<float>()[i] = tensors[0].second.as<float>()[i] * 1e-38F;
  tensors[0].second = tiny;
  const Layer small = layer(tensors, {.num_heads = 2, .causal = true}), large = large_layer();
  const Tensor expected = run(small).tensor("q"), weights = run(large).tensor("weights");
  const int rounding = std::fegetround();
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _MM_SET_FLUSH_ZERO_MODE(
      _MM_FLUSH_ZERO_ON); // as a program's start does that is linked with -ffast-math
#endif
  const Tensor found = run(small).tensor("q"), others = run(large).tensor("weights");
  int after = std::fegetround();
#if defined(__x86_64__)
  CHECK(_MM_GET_FLUSH_ZERO_MODE() == _MM_FLUSH_ZERO_ON);
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_OFF);
#endif
  std::fesetround(rounding);
  CHECK(after == FE_UPWARD);
  CHECK(same_bits(found, expected));
  CHECK(same_bits(others, weights));
}

TEST_CASE("api: nothing is written through what is borrowed or handed out in rows", "[api]") {
  const std::vector<float> mine{1, 2, 3, 4};
  for (Tensor borrowed : {mha::borrowed(std::span<const float>(mine), {2, 2}),
                          mha::borrowed(mine.data(), {2, 2}, {2, 1})})
    CHECK_THROWS_WITH(borrowed.as_mutable<float>(), Contains("read-only"));
  CHECK(mine == std::vector<float>{1, 2, 3, 4});
  const auto refuses = [](Tensor rows) {
    CHECK_THROWS_WITH(rows.as_mutable<float>(), Contains("read-only"));
  };
  stream(large_layer(), Stage::weights, [&](Place, const Tensor& rows) { refuses(rows); });
  const Model model(data("bard-gpt2"));
  model.stream(model.tokens({5, 6}), {"q"},
               [&](const At&, Place, const Tensor& rows) { refuses(rows); });
}

TEST_CASE("api: a patch behind the last layer is checked where nothing there is kept", "[api]") {
  const Model model(data("bard-gpt2"));
  const Run run = model.run(model.tokens({5, 6, 7}));
  for (const char* wrong : {"logits[5] = 1", "final[*,9] = zero", "logits[*,*,9999] = 0"}) {
    INFO(wrong);
    CHECK_THROWS_AS(run.with({wrong}), Error);
    CHECK_THROWS_AS(model.run(run.tokens(), {.patches = {wrong}}), Error);
  }
  const Tensor logits = run.logits(), twice = run.with({"logits *= 2"}).logits();
  CHECK(twice.as<float>()[7] == 2 * logits.as<float>()[7]);
  const Run lost =
      run.with({"final = nan"}); // a doubt that is reported before logits are asked for
  REQUIRE_FALSE(lost.notes().empty());
  CHECK_THAT(lost.notes().back().text, Contains("NaN"));
}

TEST_CASE("api: text() refuses numbers that are no token of the model", "[api]") {
  const Model model(data("bard-gpt2"));
  CHECK(model.text({}).empty());
  for (const int id : {-1, 1024, 99999})
    CHECK_THROWS_WITH(model.text({5, id}), Contains("the vocabulary has 0 to 1023"));
}
