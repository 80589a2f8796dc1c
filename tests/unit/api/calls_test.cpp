// Calls as programs write them: braces of numbers and texts, objects that were moved from, numbers
// that are none of an enumeration, options of what takes long.

#include "unit/api/layers.hpp"

#include <mha/xtensor.hpp>

#include <limits>
#include <stop_token>
#include <string_view>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

/// Braces around two texts are no batch of one list: std::string would take them for two iterators.
template <class M>
concept BatchesTextsInBraces = requires(const M& model) {
  model.batch({{"one", "two"}});
};
template <class M>
concept ReadsNull = requires(const M& model) {
  model.tokens(nullptr);
};
template <class V>
concept BorrowsOfNothing = requires(V&& vector) {
  borrowed(std::forward<V>(vector), Shape{2});
};

} // namespace

/// Two names where one is taken would be the ends of one text.
template <class R>
concept TakesTwoNames = requires(const R& run) {
  run.tensor({"q", "k"});
};
template <class R>
concept MeasuresTwoNames = requires(const R& run) {
  run.heads({"q", "k"});
}
|| requires(const R& run) {
  run.effects({"q", "k"});
}
|| requires(const R& run) {
  run.has({"q", "k"});
};
template <class M>
concept WeighsTwoNames = requires(const M& model) {
  model.weight({"q", "k"});
};
template <class L>
concept StreamsTwoNames = requires(const L& layer) {
  stream(layer, {"q", "k"}, [](Place, const Tensor&) {});
};

static_assert(!TakesTwoNames<Run> && !TakesTwoNames<Cache> && !MeasuresTwoNames<Run>);
static_assert(!WeighsTwoNames<Model> && !StreamsTwoNames<Layer>);
static_assert(!BatchesTextsInBraces<Model> && !ReadsNull<Model>);
static_assert(!BorrowsOfNothing<std::vector<float>>, "nothing is borrowed of a temporary");

TEST_CASE("model: token numbers in braces, 0 among them, and of any integral type", "[api]") {
  const Model model(data("bard-gpt2"));
  CHECK(model.tokens({0}).ids() == std::vector<int>{0}); // no null pointer to a text
  CHECK(model.tokens({0, 5}).ids() == std::vector<int>{0, 5});
  CHECK(model.tokens(std::vector<std::int64_t>{464, 7}).ids() == std::vector<int>{464, 7});
  CHECK(model.tokens(std::vector<std::uint8_t>{200}).ids() == std::vector<int>{200});
  CHECK(error_of([&] {
          model.tokens(std::vector<std::int64_t>{5, 1LL << 40});
        }) == "ids: 1099511627776 is not a token");
  CHECK(error_of([&] { model.tokens(std::vector<std::uint64_t>{0ULL - 1}); }) ==
        "ids: 18446744073709551615 is not a token");
  const Tokens zeros = model.batch({{0}, {0}});
  CHECK((zeros.count() == 2 && zeros.ids(1) == std::vector<int>{0}));
  CHECK(model.batch({{0, 5}, {1, 2, 3}}).length(1) == 3);
  CHECK(model.batch({{5, 6, 7}}).batched());
  const std::vector<int> ids{5, 6};
  CHECK(model.batch({ids, ids}).count() == 2);
  const std::string text = "To be";
  CHECK(model.batch({text, text}).ids(1) == model.tokens(text).ids());
  CHECK(error_of([&] { model.batch({nullptr, "a"}); }) == "batch: a null pointer is not a text");
}

TEST_CASE("api: what was moved from is an error, and empty memory is nothing to read", "[api]") {
  const std::string moved = "the object was moved from: use the one that has its contents now";
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens({5, 6, 7});
  const auto after_move = [](auto object, const auto& use) {
    const auto taken = std::move(object);
    return error_of([&] { use(object); });
  };
  const Run clean = model.run(text);
  CHECK(after_move(Model(data("bard-gpt2")), [](auto& m) { (void)m.layers(); }) == moved);
  CHECK(after_move(clean, [](auto& run) { (void)run.loss(); }) == moved);
  CHECK(after_move(clean, [](auto& run) { (void)run.with({"layers.0.q = zero"}); }) == moved);
  CHECK(after_move(clean, [](auto& run) { (void)run.notes(); }) == moved);
  CHECK(after_move(clean, [&](auto& run) { (void)clean.with({Patch::from("layers.0.q", run)}); }) ==
        moved);
  CHECK(after_move(text, [](auto& tokens) { (void)tokens.count(); }) == moved);
  CHECK(after_move(text, [&](auto& tokens) { (void)model.run(tokens); }) == moved);
  CHECK(after_move(Patch("layers.0.q = zero"), [&](auto& patch) { (void)clean.with({patch}); }) ==
        moved);
  CHECK(after_move(run(small_layer()), [](auto& cache) { (void)cache.tensor("q"); }) == moved);

  Tensor tensor = numbers({5, 4}, 1);
  const Tensor taken = std::move(tensor);
  CHECK((tensor.empty() && tensor.count() == 0 && tensor.as<float>().empty()));
  for (const Tensor& none : {tensor, Tensor()}) {
    CHECK_THAT(error_of([&] { (void)value_at(none, 0); }), Contains("outside of 0 elements"));
    CHECK(error_of([&] { (void)values<float>(none, "W"); }) ==
          "W is empty: it has neither numbers nor a shape");
    CHECK_THAT(error_of([&] { (void)view_of(none); }), Contains("the tensor is empty"));
  }
  tensor = taken; // it may be used again
  CHECK(same_bits(tensor, taken));
}

TEST_CASE("api: a number that is none of an enumeration", "[api]") {
  const auto none = static_cast<Stage>(99);
  const Layer small = small_layer();
  const Cache cache = run(small);
  CHECK(error_of([&] { run(small, {none}); }) == "Stage(99) is not a stage");
  CHECK(error_of([&] { (void)cache.tensor(none); }) == "Stage(99) is not a stage");
  CHECK(error_of([&] { (void)Patch::zero({none, 0}); }) == "Stage(99) is not a stage");
  CHECK(error_of([&] { Model(data("bard-gpt2"), {.dtype = static_cast<DType>(99)}); }) ==
        "DType(99) is not a dtype");
  CHECK(error_of([&] { stream(small, Stage::q, nullptr); }) ==
        "stream: there is no function that gets the rows");
}

TEST_CASE("api: a stage is streamed by its name, too", "[api]") {
  std::size_t rows = 0;
  stream(small_layer(), "pattern", [&](Place place, const Tensor&) { rows += place.count; });
  CHECK(rows == 10); // 2 heads, 5 queries
}

TEST_CASE("model: positions behind the last of 64 bits are none", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Run clean = model.run(model.tokens({5, 6, 7}));
  const std::size_t before_first = std::size_t{0} - 1;
  CHECK_THAT(error_of([&] { (void)clean.resid(before_first); }),
             Contains("the model has 4 layers"));
  for (const At& at :
       {At{.stage = Stage::q, .layer = 0, .heads = before_first},
        At{.stage = Stage::q, .layer = 0, .tokens = {before_first}},
        At{.stage = Stage::q, .layer = before_first},
        At{.stage = Stage::q, .layer = 0, .columns = std::vector<std::size_t>{0, before_first}}})
    CHECK_THAT(error_of([&] { (void)clean.with({Patch::zero(at)}); }), Contains("there "));
  CHECK_THAT(error_of([&] { (void)load(data("induction"), before_first); }),
             Contains("there is no layer"));
  // Counted from the end.
  const Tensor x = numbers({3, 64}, 1);
  CHECK(same_bits(run(load(data("induction"), -1, {{"X", x}}), {"q"}).tensor("q"),
                  run(load(data("induction"), 1, {{"X", x}}), {"q"}).tensor("q")));
}

TEST_CASE("model: logits that were kept are enough for losses", "[api][model]") {
  const Model model(data("bard-gpt2"));
  for (const Tokens& text :
       {model.tokens("The king"), model.batch({"The king", "O Romeo, Romeo"})}) {
    const Run kept = model.run(text, {.keep = {"logits"}, .streams = false}),
              streams = model.run(text);
    CHECK(kept.losses() == streams.losses());
    const std::vector<Predicted> own = kept.predictions(-1, 3, text.count() - 1),
                                 other = streams.predictions(-1, 3, text.count() - 1);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK((own[i].id == other[i].id && own[i].probability == other[i].probability));
  }
}

TEST_CASE("model: stages of the whole model have no layer", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens({5, 6});
  const std::string expected =
      "layers.1.logits: logits is of the whole model, and of no layer: name it logits";
  CHECK(error_of([&] { (void)model.run(text, {.keep = {"layers.1.logits"}}); }) == expected);
  const Run run = model.run(text, {.keep = {"logits"}});
  CHECK(error_of([&] { (void)run.tensor("layers.1.logits"); }) == expected);
  CHECK(run.has("logits"));
}

TEST_CASE("model: effects and measures of heads have a place for each head, and can be stopped",
          "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Run clean = model.run(model.tokens("The king"));
  CHECK(clean.effects("loss_change", {0, -1}).shape() == Shape{4, 6}); // of what has a next token
  const Run pair = model.run(model.tokens({5, 6}));
  CHECK(same_bits(pair.effects("loss_change", {}), pair.effects("loss_change", 0)));
  CHECK_THAT(error_of([&] { (void)clean.effects("loss_change"); }),
             Contains("the last token has no next token") && Contains("give positions"));
  const Model encoder(data("bard-bert"));
  CHECK_THAT(
      error_of([&] { (void)encoder.run(encoder.tokens("The king")).effects("loss_change"); }),
      Contains("hidden tokens"));
  std::vector<double> shares;
  const RunOptions watched{.progress = [&](double share) { shares.push_back(share); }};
  (void)clean.effects("kl", -1, watched);
  CHECK((shares.front() == 0 && std::ranges::is_sorted(shares) && shares.back() == 1));
  shares.clear();
  (void)clean.effects("kl", -1, {.threads = 1, .progress = watched.progress});
  CHECK((shares.size() == 4 * 8 + 1 && std::ranges::is_sorted(shares))); // heads, attention, mlp
  shares.clear();
  (void)clean.heads("entropy", watched);
  CHECK(shares == std::vector<double>{0.25, 0.5, 0.75, 1});
  shares.clear();
  (void)model.layer(2, clean.tokens(), watched);
  CHECK(shares == std::vector<double>{0.5, 1});
  std::stop_source stop;
  stop.request_stop();
  const RunOptions stopped{.stop = stop.get_token()};
  CHECK_THAT(error_of([&] { (void)clean.effects("kl", -1, stopped); }), Contains("stopped"));
  CHECK_THAT(error_of([&] { (void)clean.heads("entropy", stopped); }), Contains("stopped"));
  CHECK_THAT(error_of([&] { (void)model.layer(2, clean.tokens(), stopped); }), Contains("stopped"));
  // Stages of layers before the first patched one are computed from the streams that were kept.
  const std::vector<Patch> last{"layers.3.q *= 1"};
  shares.clear();
  (void)clean.with(last, {.keep = {"layers.0-1.q"}, .progress = watched.progress});
  CHECK(shares == std::vector<double>{0.25, 0.5, 1});
  CHECK_THAT(
      error_of([&] { (void)clean.with(last, {.keep = {"layers.0.q"}, .stop = stopped.stop}); }),
      Contains("stopped"));
  CHECK_THAT(error_of([&] { (void)clean.effects("kl", -1, {.keep = {"q"}}); }),
             Contains("threads, progress and stop"));
}
