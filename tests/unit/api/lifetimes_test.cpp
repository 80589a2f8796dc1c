// Misuse that could reach memory that is not there: objects whose makers are gone, exceptions out
// of functions that the library calls, calls from within them, numbers and names at their limits.
// Each is an Error or works; `SANITIZE=address,undefined sh tests/guest.sh` watches the memory.

#include "support/run.hpp"
#include "unit/api/layers.hpp"

#include <mha/xtensor.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <stop_token>
#include <thread>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();
constexpr float one = 1;
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

/// "" where the work ends well, an Error's message, or the type of another exception.
std::string outcome(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("std: ") + error.what();
  } catch (int number) {
    return fmt::format("int: {}", number);
  }
}

/// Reads every element.
void use(const Tensor& tensor) {
  double sum = 0;
  for (std::size_t i = 0; i < tensor.count(); ++i) sum += value_at(tensor, i);
  if (sum == 0.123456789) fmt::print("{}", sum);
}

Model gpt2() {
  return Model(data("bard-gpt2"));
}

struct Misuse {
  const char* name;
  std::function<void()> work;
  const char* expected; ///< part of the message; "": it works
};

void check(const std::vector<Misuse>& misuses) {
  for (const Misuse& misuse : misuses) {
    const std::string found = outcome(misuse.work);
    INFO(misuse.name << ": " << found);
    if (*misuse.expected)
      CHECK_THAT(found, Contains(misuse.expected));
    else
      CHECK(found.empty());
  }
}

} // namespace

TEST_CASE("api: what is handed out outlives what it was made of", "[api][model]") {
  const auto run_of = [](std::vector<std::string> keep) {
    const Model model = gpt2();
    return model.run(model.tokens("The king"), {.keep = std::move(keep)});
  };
  check({
      {"a tensor", [&] { use(run_of({"layers.1.weights"}).tensor("weights")); }, ""},
      {"logits", [&] { use(run_of({}).logits()); }, ""},
      {"a stream", [&] { use(run_of({}).resid(2)); }, ""},
      {"a part of a tensor", [&] { use(run_of({"layers.1.weights"}).tensor("weights").at(5)); },
       ""},
      {"an expression's tensor",
       [&] {
         const auto weights = run_of({"layers.1.weights"}).get<float, 3>("weights");
         if (weights(0, 0, 0) != 1.F) throw Error("the first token attends to itself");
       },
       ""},
      {"pieces", [&] { (void)run_of({}).tokens().pieces(); }, ""},
      {"a run with patches", [&] { use(run_of({}).with({"layers.2.q = mean"}).logits()); }, ""},
      {"a weight", [] { use(gpt2().weight("layers.0.W_q")); }, ""},
      {"a layer", [] { use(run(gpt2().layer(1, gpt2().tokens({5}))).tensor("q")); },
       "another model"},
      {"a layer with a stream",
       [] {
         const Layer layer = [] {
           const Model model = gpt2();
           return model.layer(1, model.tokens({5, 6}));
         }();
         use(run(layer).tensor("output"));
       },
       ""},
      {"a layer without one",
       [] {
         const Layer alone = gpt2().layer(1);
         use(run(alone.with("X", numbers({1, 96}, 1))).tensor("q"));
       },
       "made without X"},
      {"a model with another weight",
       [] {
         const Model changed = gpt2().with("layers.0.W_o", gpt2().weight("layers.1.W_o"));
         use(changed.run(changed.tokens({5, 6})).logits());
       },
       ""},
      {"a patch from a run",
       [&] {
         const Model model = gpt2();
         const auto other = [&] { return model.run(model.tokens({7, 8})); };
         const Patch patch = Patch::from("layers.1.q", other());
         use(model.run(model.tokens({5, 6}), {.patches = {patch}}).logits());
       },
       ""},
      {"a patch's tensor",
       [] {
         const auto patch = [] { return Patch("layers.1.mlp_out", numbers({1, 96}, 1)); };
         const Model model = gpt2();
         use(model.run(model.tokens({5, 6}), {.patches = {patch()}}).logits());
       },
       ""},
      {"a patch's function",
       [] {
         const auto patch = [](double by) {
           return Patch::rows("layers.1.mlp_out", [by](Place, const Tensor& row) {
             Tensor scaled = convert(row, DType::f64);
             Tensor result(DType::f64, scaled.shape());
             for (std::size_t i = 0; i < scaled.count(); ++i)
               result.as_mutable<double>()[i] = by * scaled.as<double>()[i];
             return result;
           });
         };
         const Model model = gpt2();
         const Run run = model.run(model.tokens({5, 6}), {.patches = {patch(0.5)}});
         use(run.with({patch(2)}).logits());
       },
       ""},
      {"rows of a stream",
       [] {
         std::vector<Tensor> kept;
         const Model model = gpt2();
         model.stream(model.tokens({5, 6, 7}), {"weights"},
                      [&](const At&, Place, Tensor rows) { kept.push_back(std::move(rows)); });
         for (const Tensor& rows : kept) use(rows);
       },
       ""},
      {"rows of a lone layer",
       [] {
         std::vector<Tensor> kept;
         stream(small_layer<>(), Stage::weights, [&](Place, Tensor rows) { kept.push_back(rows); });
         for (const Tensor& rows : kept) use(rows);
       },
       ""},
      {"a lone layer's stage", [] { use(run(small_layer<>()).tensor("weights").at(1).at(2)); }, ""},
      {"a lone layer's patch",
       [] {
         use(run(small_layer<>().with("weights", numbers({2, 5, 5}, 1))).tensor("output"));
       },
       ""},
      {"a file that was deleted",
       [] {
         const Folder folder;
         std::filesystem::copy(data("bard-gpt2"), folder.path("model"),
                               std::filesystem::copy_options::recursive);
         const Model model(folder.path("model"));
         const Tokens text = model.tokens("The king");
         std::filesystem::remove_all(folder.path("model"));
         use(model.run(text).logits());
       },
       ""},
      {"a copy's original",
       [] {
         auto model = std::make_unique<Model>(gpt2());
         const Model copy = *model;
         model.reset();
         use(copy.run(copy.tokens({5})).logits());
       },
       ""},
      {"a Run of no state", [] { (void)Run(nullptr).loss(); }, "moved from"},
      {"Tokens of no state", [] { (void)Tokens(nullptr).pieces(); }, "moved from"},
      {"a Model of no state", [] { (void)Model(std::shared_ptr<Model::State>()).layers(); },
       "moved from"},
      {"a Cache of no state", [] { (void)Cache(nullptr).stages(); }, "moved from"},
      {"an empty layer", [] { run(Layer{}); }, "no stage"},
      {"an empty layer's stage", [] { run(Layer{}, {Stage::q}); }, "q"},
      {"an empty layer with a tensor",
       [] {
         (void)Layer{}.with("X", numbers({5, 4}, 1));
       },
       "X"},
  });
}

TEST_CASE("api: what functions of a program throw, return and call", "[api][model]") {
  const Model model = gpt2();
  const Tokens text = model.tokens({5, 6, 7, 8});
  const Run clean = model.run(text);
  const auto rows = [&](std::function<Tensor(Place, Tensor)> function) {
    use(clean.with({Patch::rows("layers.1.head_out[0]", std::move(function))}).logits());
  };
  const auto stream = [&](const std::function<void(Tensor)>& function, std::size_t threads = 0) {
    model.stream(text, {"*"}, [&](const At&, Place, Tensor held) { function(std::move(held)); },
                 {.threads = threads});
  };
  std::size_t calls = 0;
  check({
      {"rows throw an int", [&] { rows([](Place, const Tensor&) -> Tensor { throw 5; }); },
       "int: 5"},
      {"rows throw", [&] { rows([](Place, Tensor) -> Tensor { throw std::bad_alloc(); }); },
       "std: std::bad_alloc"},
      {"rows throw an Error", [&] { rows([](Place, Tensor) -> Tensor { fail("enough"); }); },
       "enough"},
      {"rows return nothing", [&] { rows([](Place, const Tensor&) { return Tensor(); }); },
       "of a row of"},
      {"rows return too few", [&] { rows([](Place, const Tensor&) { return numbers({3}, 1); }); },
       "of a row of"},
      {"rows return whole numbers",
       [&] { rows([](Place, const Tensor& row) { return Tensor(DType::i16, row.shape()); }); }, ""},
      {"rows return bits",
       [&] { rows([](Place, const Tensor& row) { return convert(row, DType::bf16); }); }, ""},
      {"rows return an axis more",
       [&] { rows([](Place, const Tensor& row) {
               return row.reshaped({1, 1, 1, row.count()});
             }); },
       ""},
      {"rows write into what they got",
       [&] {
         rows([](Place, Tensor row) {
           row.as_mutable<float>()[0] = 1;
           return row;
         });
       },
       ""},
      {"rows run a model",
       [&] {
         rows([&](Place, Tensor row) {
           use(model.run(text, {.threads = 2}).logits());
           return row;
         });
       },
       ""},
      {"rows run the run that they change",
       [&] {
         rows([&](Place, Tensor row) {
           use(clean.with({"layers.0.q = zero"}).logits());
           return row;
         });
       },
       ""},
      {"a stream throws an int", [&] { stream([](const Tensor&) { throw 7; }); }, "int: 7"},
      {"a stream throws at its end",
       [&] {
         stream([&](const Tensor&) {
           if (++calls == 60) throw 8;
         });
       },
       "int: 8"},
      {"a stream runs the model",
       [&] { stream([&](const Tensor&) { use(model.run(text, {.threads = 2}).resid(-1)); }); }, ""},
      {"a stream streams",
       [&] {
         stream([&](const Tensor&) {
           model.stream(text, {"layers.0.q"},
                        [](const At&, Place, const Tensor& held) { use(held); });
         });
       },
       ""},
      {"a stream of one thread", [&] { stream([](const Tensor& held) { use(held); }, 1); }, ""},
      {"progress throws an int", [&] { model.run(text, {.progress = [](double) { throw 9; }}); },
       "int: 9"},
      {"progress of effects throws",
       [&] {
         (void)clean.effects("kl", -1, {.progress = [](double share) {
                               if (share > 0.5) throw 10;
                             }});
       },
       "int: 10"},
      {"progress runs the model",
       [&] { model.run(text, {.progress = [&](double) { use(model.run(text).logits()); }}); }, ""},
      {"stopped from progress",
       [&] {
         std::stop_source stop;
         model.run(text,
                   {.progress = [&](double) { stop.request_stop(); }, .stop = stop.get_token()});
       },
       "stopped"},
      {"stopped from another thread",
       [&] {
         std::stop_source stop;
         const std::jthread other([&] { stop.request_stop(); });
         for (int turn = 0; turn < 100000; ++turn) model.run(text, {.stop = stop.get_token()});
       },
       "stopped"},
      {"a stop's source is gone",
       [&] { model.run(text, {.stop = std::stop_source().get_token()}); }, ""},
      {"a lone layer's stream throws an int",
       [] { mha::stream(large_layer(), Stage::weights, [](Place, const Tensor&) { throw 11; }); },
       "int: 11"},
      {"a lone layer's stream runs it",
       [] {
         const Layer layer = small_layer<>();
         mha::stream(layer, Stage::weights, [&](Place, const Tensor&) { run(layer); });
       },
       ""},
      {"each throws", [] { each(small_layer<>(), Stage::weights, [](Place, auto) { throw 12; }); },
       "int: 12"},
      {"rows after the run", // the function's captures live as long as the patch
       [&] {
         auto word = std::make_shared<int>(1);
         const std::weak_ptr<int> watch = word;
         Run changed = clean.with({Patch::rows(
             "layers.0.q", [word](Place, Tensor row) { return *word ? row : Tensor(); })});
         word.reset();
         use(changed.with({"layers.2.q = zero"}).logits());
         changed = clean;
         if (!watch.expired()) throw Error("the function is still held");
       },
       ""},
  });
}

TEST_CASE("api: numbers at their limits", "[api][model]") {
  const Model model = gpt2(), llama(data("bard-llama"));
  const Tokens text = model.tokens({5, 6, 7, 8});
  const Run clean = model.run(text, {.keep = {"layers.0.q"}});
  const auto with = [&](Patch patch) { use(clean.with({std::move(patch)}).logits()); };
  const auto at = [](Indexes heads, Indexes tokens = {}, Indexes columns = {}) {
    return At{Stage::q, 1, std::move(heads), std::move(tokens), std::move(columns)};
  };
  check({
      {"a head behind all", [&] { with(Patch::zero(at(huge))); }, "heads"},
      {"a head before all", [&] { with(Patch::zero(at(least))); }, "heads"},
      {"a token before all", [&] { with(Patch::zero(at(0, least))); }, "token"},
      {"a column behind all", [&] { with(Patch::zero(at(0, 0, huge))); }, "column"},
      {"a head twice",
       [&] {
         with(Patch::zero(at({0, 0, -6})));
       },
       ""},
      {"heads in another order",
       [&] {
         with(Patch::set(at({3, 1}), numbers({2, 4, 16}, 1)));
       },
       ""},
      {"a layer behind all",
       [&] {
         with(Patch::zero({Stage::q, huge}));
       },
       "layer"},
      {"a layer before all",
       [&] {
         with(Patch::zero({Stage::q, least}));
       },
       "layer"},
      {"a layer without a name",
       [&] {
         with(Patch::zero({Stage::q, ""}));
       },
       "layer"},
      {"a layer of digits",
       [&] {
         with(Patch::zero({Stage::q, std::string(400, '9')}));
       },
       "layer"},
      {"no stage at all",
       [&] {
         with(Patch::zero({static_cast<Stage>(250), 1}));
       },
       "stage"},
      {"infinity", [&] { with(Patch::set(at(0), HUGE_VAL)); }, ""},
      {"NaN", [&] { with(Patch::add(at(0), std::nan(""))); }, ""},
      {"a value without axes", [&] { with(Patch::set(at(0), tensor(std::vector<float>{1}, {}))); },
       ""},
      {"a value of no numbers",
       [&] {
         with(Patch::set(at(0), borrowed(&one, {0, 16}, {16, 1})));
       },
       "(0, 16)"},
      {"a value of axes of one",
       [&] {
         with(Patch::set(at(0), numbers({1, 1, 1, 1, 1, 1}, 1)));
       },
       ""},
      {"a value of flags",
       [&] {
         with(Patch::multiply(at(0), Tensor(DType::boolean, {4, 16})));
       },
       ""},
      {"an axis that is too long", [&] { with("layers.1.q[0:99999999999999999999] = 1"); },
       "layers.1.q"},
      {"a range backwards", [&] { with("layers.1.q[3:1] = 1"); }, "layers.1.q"},
      {"a bracket", [&] { with("layers.1.q[ = 1"); }, "]"},
      {"brackets", [&] { with("layers.1.q[[[]]] = 1"); }, "layers.1.q"},
      {"a quote", [&] { with("layers.1.q[*,'sun] = 1"); }, "layers.1.q"},
      {"a number beyond all", [&] { with("layers.1.q = 1e999"); }, "layers.1.q"},
      {"a long patch", [&] { with(Patch(std::string(1 << 20, 'q') + " = 1")); }, "q"},
      {"a patch of zeros", [&] { with(Patch(std::string("layers.1.q\0[0] = 1", 18))); }, "layers"},
      {"an empty patch", [&] { with(""); }, "PLACE = VALUE"},
      {"a thousand patches",
       [&] { use(clean.with(std::vector<Patch>(1000, Patch("layers.1.q += 0.001"))).logits()); },
       ""},
      {"a stream behind all", [&] { (void)clean.resid(huge); }, "resid"},
      {"a stream before all", [&] { (void)clean.resid(least); }, "resid"},
      {"a position before all", [&] { (void)clean.predictions(least); }, "predictions"},
      {"every token predicted", [&] { (void)clean.predictions(-1, huge); }, ""},
      {"no token predicted", [&] { (void)clean.predictions(-1, 0); }, ""},
      {"a text behind all", [&] { (void)clean.predictions(-1, 1, huge); }, "no text"},
      {"effects before all", [&] { (void)clean.effects("kl", least); }, "no position"},
      {"effects of no position", [&] { (void)clean.effects("kl", std::vector<int>{}); }, "no pos"},
      {"threads without number", [&] { use(model.run(text, {.threads = huge}).logits()); }, ""},
      {"threads of a lone layer",
       [] { use(run(large_layer(), {Stage::output}, huge).tensor("output")); }, ""},
      {"the largest id", [&] { model.tokens({std::numeric_limits<int>::max()}); }, "not a token"},
      {"ids below zero",
       [&] {
         (void)model.text({-1, 5});
       },
       "-1 is not a token"},
      {"ids behind all", [&] { (void)model.text({std::numeric_limits<int>::max()}); },
       "not a token"},
      {"unequal texts",
       [&] {
         std::vector<std::vector<int>> texts(40, {5});
         texts[7].assign(60, 6);
         const Run batch = model.run(model.batch(texts), {.keep = {"weights", "logits"}});
         use(batch.tensor("layers.3.weights")), use(batch.heads("entropy"));
         (void)batch.losses();
         use(batch.with({"layers.1.q[*,-1] = zero", "layers.2.mlp_out = mean"}).logits());
       },
       ""},
      {"a token that one text lacks",
       [&] {
         const Run batch = model.run(model.batch({{5, 6, 7}, {5}}));
         use(batch.with({"layers.1.q[*,2] = zero"}).logits());
       },
       "token"},
      {"effects at what one text lacks",
       [&] {
         const Run batch = model.run(model.batch({{5, 6, 7}, {5}}));
         use(batch.effects("kl", -3));
       },
       "no position -3"},
      {"text that is no UTF-8", [&] { use(model.run(model.tokens("\xff\xfe\x80 king")).logits()); },
       ""},
      {"text of zeros", [&] { use(model.run(model.tokens(std::string(8, '\0'))).logits()); }, ""},
      {"names of nothing", [&] { model.run(text, {.keep = {""}}); }, "stage"},
      {"a name of a dot", [&] { model.run(text, {.keep = {"."}}); }, "stage"},
      {"a name's layer beyond numbers",
       [&] { model.run(text, {.keep = {"layers.99999999999999999999.q"}}); }, "layer"},
      {"a long name", [&] { (void)clean.tensor(std::string(1 << 20, 'x')); }, "stage"},
      {"a stage twice",
       [&] {
         use(model.run(text, {.keep = {"q", "layers.0.q", "*"}}).tensor("layers.0.q"));
       },
       ""},
      {"heads of a kept place",
       [&] {
         (void)clean.tensor({Stage::q, 0, {1}});
       },
       "whole stage"},
      {"no memory for weights",
       [&] {
         const Model small(data("bard-gpt2"), {.memory = 0});
         use(small.run(small.tokens({5})).logits());
       },
       ""},
      {"all memory for weights",
       [&] {
         const Model large(data("bard-gpt2"), {.memory = huge});
         use(large.run(large.tokens({5})).logits());
       },
       ""},
      {"settings beyond numbers",
       [] {
         Model(data("bard-gpt2"), {.settings = {{"num_heads", "99999999999999999999"}}});
       },
       "num_heads"},
      {"settings of nothing",
       [] {
         Model(data("bard-gpt2"), {.settings = {{"", ""}}});
       },
       "setting"},
      {"a device", [] { Model("/dev/null"); }, "/dev/null"},
      {"another run's texts",
       [&] {
         const Run two = model.run(model.batch({{5, 6, 7, 8}, {5, 6, 7, 8}}));
         use(model.run(model.batch({{5, 6, 7, 8}, {5, 6, 7, 8}, {1, 2, 3, 4}}))
                 .with({Patch::from("layers.1.q", two)})
                 .logits());
       },
       "2 texts, this one 3"},
      {"another run of several texts",
       [&] {
         const Run two = model.run(model.batch({{5, 6, 7, 8}, {5, 6, 7, 8}}));
         with(Patch::from("layers.1.q", two));
       },
       "2 texts, this one 1"},
      {"another run's unequal texts",
       [&] {
         const Run batch = model.run(model.batch({{5, 6, 7}, {5, 6}}));
         const Run other = model.run(model.batch({{5, 6}, {5, 6, 7}}));
         use(batch.with({Patch::from("layers.1.mlp_out", other)}).logits());
       },
       "the same number of tokens"},
      {"a run of one token",
       [&] { with(Patch::from("layers.1.mlp_out", model.run(model.tokens({5})))); },
       "the same number of tokens"},
      {"another model's run",
       [&] {
         with(Patch::from("layers.1.mlp_out", llama.run(llama.tokens({5, 6, 7, 8}))));
       },
       "another model"},
      {"the same model, opened again",
       [&] {
         with(Patch::from("layers.1.mlp_out", gpt2().run(gpt2().tokens({5, 6, 7, 8}))));
       },
       "another model"},
      {"the model with another weight",
       [&] {
         const Model changed = model.with("layers.0.W_o", model.weight("layers.1.W_o"));
         with(Patch::from("layers.1.mlp_out", changed.run(text)));
       },
       ""},
      {"one text's values for a batch",
       [&] {
         const Run batch = model.run(model.batch({{5, 6, 7, 8}, {1, 2, 3, 4}}));
         use(batch.with({Patch::from("layers.1.q", clean)}).logits());
       },
       ""},
      {"a shape beyond memory",
       [] {
         tensor(std::vector<float>(4), {huge, 2});
       },
       "("},
      {"an element behind all",
       [] {
         (void)numbers({2, 3}, 1).at(huge);
       },
       "outside"},
      {"an element of no axis", [] { (void)numbers({}, 1).at(0); }, "outside"},
      {"an empty tensor", [] { use(Tensor()), (void)Tensor().reshaped({0}); }, ""},
      {"a tensor of no numbers",
       [] {
         use(borrowed(&one, {0, 4}, {4, 1}));
       },
       ""},
      {"nothing borrowed",
       [] {
         borrowed(static_cast<const float*>(nullptr), {2, 3}, {3, 1});
       },
       "null"},
  });
}
