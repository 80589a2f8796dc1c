// A whole model for programs: made once, run many times.

#include "support/compare.hpp"
#include "unit/api/layers.hpp"

#include <mha/formats/formats.hpp>
#include <mha/load/load.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

/// A stage of another run, in the order of the file that PyTorch's numbers are in.
Tensor expected(const char* model, const char* name) {
  const io::Contents file = io::open(data(model) + std::string("/expected/line.npz"));
  for (const io::Entry& entry : file.tensors)
    if (entry.name == name) return entry.read();
  FAIL(name << " is not in the file");
  return {};
}

std::string line_of(const char* model) {
  std::ifstream file(data(model) + std::string("/expected/line.txt"));
  std::string line;
  std::getline(file, line);
  return line;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.count() == b.count());
  double largest = 0;
  for (std::size_t i = 0; i < a.count(); ++i)
    largest = std::max(largest, std::abs(value_at(a, i) - value_at(b, i)));
  return largest;
}

/// −log softmax(row)[next], in plain loops.
double loss_of_row(const Tensor& logits, std::size_t row, int next) {
  const std::size_t V = logits.shape().back();
  double sum = 0;
  for (std::size_t i = 0; i < V; ++i) sum += std::exp(value_at(logits, row * V + i));
  return std::log(sum) - value_at(logits, row * V + static_cast<std::size_t>(next));
}

} // namespace

TEST_CASE("model: a run keeps what was asked for, and has PyTorch's numbers", "[api][model]") {
  for (const char* name : {"bard-gpt2", "bard-llama"}) {
    INFO(name);
    const Model model(data(name), {.dtype = DType::f64});
    const Tokens text = model.tokens(line_of(name));
    const Run run = model.run(text, {.keep = {"layers.*.weights", "logits", "layers.2.mlp_out"}});
    const Tensor ids = expected(name, "ids");
    REQUIRE(text.length() == ids.count());
    for (std::size_t t = 0; t < ids.count(); ++t)
      CHECK(text.ids()[t] == static_cast<int>(value_at(ids, t)));
    CHECK(run.kept().size() == model.layers() + 2);
    CHECK(run.has("layers.3.weights"));
    CHECK(run.has("blocks.3.attn.hook_pattern"));
    CHECK_FALSE(run.has("layers.3.q"));
    CHECK(largest_difference(run.tensor("logits"), expected(name, "logits")) < 2e-4);
    CHECK(largest_difference(run.tensor("layers.3.weights"), expected(name, "layers.3.weights")) <
          2e-5);
    CHECK(largest_difference(run.tensor("mlp_out"), expected(name, "layers.2.mlp_out")) < 2e-4);
    for (std::size_t n = 0; n < model.layers(); ++n)
      CHECK(largest_difference(
                run.resid(n),
                expected(name, ("layers." + std::to_string(n) + ".resid_pre").c_str())) < 2e-4);
    double sum = 0;
    const std::vector<double> losses = run.losses()[0];
    REQUIRE(losses.size() == text.length() - 1);
    for (std::size_t t = 0; t < losses.size(); ++t) {
      CHECK(losses[t] == Approx(loss_of_row(run.logits(), t, text.ids()[t + 1])).epsilon(1e-12));
      sum += losses[t];
    }
    CHECK(run.loss() == Approx(sum / static_cast<double>(losses.size())).epsilon(1e-14));
    // Without keep, the logits are computed when they are asked for, to the same bits.
    const Run plain = model.run(text);
    CHECK(same_bits(plain.logits(), run.tensor("logits")));
    CHECK(plain.loss() == run.loss());
    CHECK(plain.kept().empty());
  }
}

TEST_CASE("model: a run with patches begins where they are, with a whole run's bits",
          "[api][model]") {
  for (const char* name : {"bard-gpt2", "bard-llama", "induction-model"}) {
    INFO(name);
    const Model model(data(name));
    const Tokens text = model.tokens(std::vector<int>{5, 9, 3, 7, 11, 3, 7, 2});
    const Run clean = model.run(text);
    for (std::size_t n = 0; n < model.layers(); ++n) {
      const std::size_t H = model.dims(n).H;
      for (std::size_t h : {std::size_t(0), H - 1}) {
        const Patch zero = Patch::zero({.stage = Stage::head_result, .layer = n, .heads = {h}});
        const Run from_there = clean.with({zero}, {.keep = {"logits", "layers.0.weights"}});
        const Run whole =
            model.run(text, {.keep = {"logits", "layers.0.weights"}, .patches = {zero}});
        CHECK(same_bits(from_there.tensor("logits"), whole.tensor("logits")));
        CHECK(same_bits(from_there.tensor("weights"), whole.tensor("weights")));
        CHECK_FALSE(same_bits(clean.logits(), whole.tensor("logits")));
        const Run written =
            model.run(text, {.patches = {"layers." + std::to_string(n) + ".head_result[" +
                                         std::to_string(h) + "] = zero"}});
        CHECK(same_bits(written.logits(), whole.logits()));
        // One more patch, before the first: both hold.
        const Patch first = Patch::multiply({Stage::mlp_out, 0}, 0.5);
        if (!model.layer(n).block->mlp.present()) continue;
        CHECK(same_bits(from_there.with({first}).logits(),
                        model.run(text, {.patches = {zero, first}}).logits()));
      }
    }
    // A layer's own values change nothing.
    const Run kept = model.run(text, {.keep = {"layers.1.weights"}});
    CHECK(same_bits(kept.with({{"layers.1.weights", kept.tensor("layers.1.weights")}}).logits(),
                    clean.logits()));
    // Without streams the run begins at the embedding.
    const Run without = model.run(text, {.streams = false});
    CHECK(same_bits(without.with({"layers.1.output += 0.25"}).logits(),
                    clean.with({"layers.1.output += 0.25"}).logits()));
    CHECK_THROWS_WITH(without.loss(), Contains("kept no streams"));
    CHECK_THROWS_WITH(without.resid(0), Contains("kept no streams"));
  }
}

TEST_CASE("model: patches set, add and multiply at heads, tokens and columns", "[api][model]") {
  const Model model(data("bard-gpt2"), {.dtype = DType::f64});
  const Tokens text = model.tokens("To be, or not to be");
  const std::size_t T = text.length();
  const Run clean = model.run(text, {.keep = {"layers.1.q", "layers.2.weights"}});
  const At at{.stage = Stage::q, .layer = -3, .heads = {1, -1}, .tokens = {-2}, .columns = {0, 3}};
  const auto q_of = [&](const Patch& patch) {
    return clean.with({patch}, {.keep = {"layers.1.q"}}).tensor("q");
  };
  const Tensor before = clean.tensor("layers.1.q"); // H, T, d_k
  const std::size_t H = before.shape()[0], d = before.shape()[2];
  const std::vector<double> four{1, 2, 3, 4};
  const Tensor values = Tensor::of<double>({2, 1, 2}, four);
  const Tensor set = q_of(Patch::set(at, values)), added = q_of(Patch::add(at, values)),
               times = q_of(Patch::multiply(at, values)), half = q_of(Patch::multiply(at, 0.5)),
               seven = q_of(Patch::set(at, 7));
  for (std::size_t h = 0; h < H; ++h)
    for (std::size_t t = 0; t < T; ++t)
      for (std::size_t i = 0; i < d; ++i) {
        const std::size_t place = (h * T + t) * d + i;
        const double was = value_at(before, place);
        const bool patched = (h == 1 || h == H - 1) && t == T - 2 && (i == 0 || i == 3);
        const double value =
            patched ? four[(h == 1 ? 0 : 2) + static_cast<std::size_t>(i == 3)] : 0;
        REQUIRE(value_at(set, place) == (patched ? value : was));
        REQUIRE(value_at(added, place) == (patched ? was + value : was));
        REQUIRE(value_at(times, place) == (patched ? was * value : was));
        REQUIRE(value_at(half, place) == (patched ? was * 0.5 : was));
        REQUIRE(value_at(seven, place) == (patched ? 7 : was));
      }
  // Rows that a function makes: each is whole, and each comes once.
  std::vector<Place> seen;
  const Patch rows = Patch::rows({.stage = Stage::weights, .layer = 2, .heads = {3}},
                                 [&](Place place, Tensor row) {
                                   seen.push_back(place);
                                   CHECK(row.shape() == Shape{1, T});
                                   Tensor even(DType::f64, {1, T});
                                   for (double& w : even.as_mutable<double>()) w = 0.125;
                                   return even;
                                 });
  const Tensor changed = clean.with({rows}, {.keep = {"layers.2.weights"}}).tensor("weights");
  REQUIRE(seen.size() == T);
  for (std::size_t t = 0; t < T; ++t) CHECK((seen[t].head == 3 && seen[t].token == t));
  for (std::size_t i = 0; i < changed.count(); ++i) {
    const bool patched = i / (T * T) == 3;
    REQUIRE(value_at(changed, i) ==
            (patched ? 0.125 : value_at(clean.tensor("layers.2.weights"), i)));
  }
}

TEST_CASE("model: patches of means and of other runs", "[api][model]") {
  const Model model(data("bard-llama"), {.dtype = DType::f64});
  const Tokens batch = model.batch({"To be, or not to be", "The king is dead"});
  const Run clean = model.run(batch, {.keep = {"layers.1.head_out", "layers.2.output"}});
  const Tensor before = clean.tensor("layers.1.head_out"); // B, H, T, d_v
  const Shape& shape = before.shape();
  const Run run = clean.with({Patch::mean({.stage = Stage::head_out, .layer = 1, .heads = {2}})},
                             {.keep = {"layers.1.head_out"}});
  const Tensor after = run.tensor("head_out");
  for (std::size_t i = 0; i < shape[3]; ++i) {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t b = 0; b < shape[0]; ++b)
      for (std::size_t t = 0; t < batch.length(b); ++t, ++count)
        sum += value_at(before, ((b * shape[1] + 2) * shape[2] + t) * shape[3] + i);
    CHECK(value_at(after, (2 * shape[2]) * shape[3] + i) ==
          Approx(sum / static_cast<double>(count)).epsilon(1e-12));
  }
  // Another run's values, where that one was patched, too.
  const Tokens one = model.tokens("To be or not"), two = model.tokens("Ay me or no");
  REQUIRE(one.length() == two.length());
  const Run other =
      model.run(two, {.keep = {"layers.2.output"}, .patches = {"layers.0.mlp_out = zero"}});
  const Run here = model.run(one);
  const Run given =
      here.with({Patch::from({.stage = Stage::output, .layer = 2, .tokens = {-1}}, other)},
                {.keep = {"layers.2.output"}});
  const Tensor theirs = other.tensor("output"), ours = given.tensor("output");
  const std::size_t T = one.length(), d = ours.shape()[1];
  CHECK(std::memcmp(ours.raw() + (T - 1) * d * 8, theirs.raw() + (T - 1) * d * 8, d * 8) == 0);
  CHECK(std::memcmp(ours.raw(), theirs.raw(), d * 8) != 0);
  // The same by text.
  const Run typed = here.with({"layers.2.output[*,-1] = from 'Ay me or no'"});
  const Run made = here.with({Patch::from({Stage::output, 2, {}, {-1}}, model.run(two))});
  CHECK(same_bits(typed.logits(), made.logits()));
}

TEST_CASE("model: a batch of texts has each text's numbers", "[api][model]") {
  for (const char* name : {"bard-gpt2", "bard-llama", "bard-bert"}) {
    INFO(name);
    const Model model(data(name));
    const Tokens batch = model.batch({"To be, or not to be", "The king"});
    CHECK((batch.batched() && batch.count() == 2));
    CHECK(batch.pieces(0).size() == batch.length(0));
    const Run both = model.run(batch, {.keep = {"layers.1.weights", "logits"}});
    for (std::size_t b = 0; b < 2; ++b) {
      const Run alone = model.run(model.tokens(batch.ids(b)), {.keep = {"logits"}});
      const Tensor logits = both.tensor("logits").at(b);
      CHECK(std::memcmp(logits.raw(), alone.tensor("logits").raw(),
                        alone.tensor("logits").bytes()) == 0);
      if (std::string(name) == "bard-bert") continue;
      CHECK(both.losses()[b] == alone.losses()[0]);
    }
    CHECK(both.resid(0).shape().size() == 3);
    // A batch of one keeps its axis.
    CHECK(model.run(model.batch({{5, 6}}), {.keep = {"logits"}}).tensor("logits").shape().size() ==
          3);
    const std::vector<Predicted> first = both.predictions(1, 3, 0);
    REQUIRE(first.size() == 3);
    CHECK(first[0].probability >= first[1].probability);
    const Tensor row = both.tensor("logits").at(0).at(1);
    CHECK(value_at(row, static_cast<std::size_t>(first[0].id)) == Approx(first[0].logit));
  }
}

TEST_CASE("model: streamed stages are those that are kept, in order", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Tokens batch = model.batch({"To be, or not to be", "The king"});
  const std::vector<std::string> names{"layers.*.weights", "layers.2.mlp_out", "logits"};
  const Patch patch("layers.1.resid_post *= 1.5");
  const Run kept = model.run(batch, {.keep = names, .patches = {patch}});
  std::map<std::string, std::vector<std::byte>> bytes;
  std::size_t last_layer = 0;
  model.stream(batch, names,
               [&](const At& at, Place place, Tensor rows) {
                 const std::string layer = at.layer.id();
                 const std::string name = (layer.empty() ? "" : "layers." + layer + ".") +
                                          std::string(name_of(at.stage));
                 const std::size_t number = layer.empty() ? model.layers() : std::stoul(layer);
                 CHECK(number >= last_layer);
                 last_layer = number;
                 CHECK(rows.shape()[0] == place.count);
                 std::vector<std::byte>& to = bytes[name];
                 to.insert(to.end(), rows.raw(), rows.raw() + rows.bytes());
               },
               {.patches = {patch}});
  CHECK(bytes.size() == kept.kept().size());
  for (const std::string& name : kept.kept()) {
    INFO(name);
    const Tensor whole = kept.tensor(name); // B, (H,) T, columns, with rows after a text's end
    const Shape& shape = whole.shape();
    const std::size_t rows = shape[shape.size() - 2],
                      row = shape.back() * whole.bytes() / whole.count(),
                      matrices = whole.bytes() / (rows * row), heads = matrices / shape[0];
    std::vector<std::byte> own;
    for (std::size_t m = 0; m < matrices; ++m) {
      const std::byte* const from = whole.raw() + m * rows * row;
      own.insert(own.end(), from, from + batch.length(m / heads) * row);
    }
    CHECK((bytes[name] == own));
  }
  CHECK_THROWS_AS(
      model.stream(batch, {"weights"},
                   [](const At&, Place, const Tensor&) { throw std::out_of_range("enough"); }),
      std::out_of_range);
}

TEST_CASE("model: layers, weights and another weight in one's place", "[api][model]") {
  const Model model(data("bard-llama"));
  const Tokens text = model.tokens("To be or not");
  const Dims dims = model.dims(1);
  CHECK((dims.H > dims.H_kv && dims.vocabulary > 0 && dims.d_ff > 0));
  const Tensor W = model.weight("layers.1.W_o");
  CHECK(W.shape() == Shape{dims.H * dims.d_v, dims.d_out});
  Tensor twice = Tensor::uninitialised(W.dtype(), W.shape());
  for (std::size_t i = 0; i < W.count(); ++i) twice.as_mutable<float>()[i] = 2 * W.as<float>()[i];
  const Model other = model.with("layers.1.W_o", twice);
  const Run doubled = other.run(text, {.keep = {"layers.1.output"}});
  const Run patched =
      model.run(text, {.keep = {"layers.1.output"}, .patches = {"layers.1.output *= 2"}});
  CHECK(same_bits(doubled.tensor("output"), patched.tensor("output")));
  CHECK(same_bits(doubled.logits(), patched.logits()));
  CHECK_FALSE(same_bits(model.run(text).logits(), doubled.logits()));
  const Layer alone = model.layer(-1, text);
  CHECK(same_bits(run(alone, {Stage::output}).tensor("output"),
                  model.run(text, {.keep = {"layers.3.output"}}).tensor("output")));
  CHECK_THROWS_WITH(model.with("layers.1.W_o", model.weight("layers.1.W_k")), Contains("expected"));
  CHECK_THROWS_WITH(model.with("W_o", W), Contains("of which layer?"));
  CHECK_THROWS_WITH(model.with("layers.1.weights", W),
                    Contains("weights is a stage, not a weight"));
  CHECK_THROWS_WITH(model.weight("layers.9.W_o"), Contains("the model has 4 layers"));
  CHECK_THROWS_WITH(model.weight("layers.1.b_o"), Contains("has no b_o"));
}

TEST_CASE("model: eight threads on one model have the bits of lone runs", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const std::vector<std::string> texts{"To be",       "or not to be", "The king is dead", "My lord",
                                       "Ay, my good", "Farewell",     "What news now",    "Exeunt"};
  std::vector<Tensor> alone, together(texts.size());
  for (const std::string& text : texts) {
    const Model own(data("bard-gpt2"));
    alone.push_back(own.run(own.tokens(text)).with({"layers.1.output *= 2"}).logits());
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&, i] {
      together[i] = model.run(model.tokens(texts[i]), {.threads = i % 3})
                        .with({"layers.1.output *= 2"})
                        .logits();
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(same_bits(together[i], alone[i]));
}

TEST_CASE("model: progress, and a stop between layers", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens("The king");
  std::vector<double> shares;
  (void)model.run(text, {.progress = [&](double share) { shares.push_back(share); }});
  CHECK(shares == std::vector<double>{0.25, 0.5, 0.75, 1});
  std::stop_source stop;
  shares.clear();
  CHECK_THROWS_WITH(model.run(text, {.progress =
                                         [&](double share) {
                                           shares.push_back(share);
                                           stop.request_stop();
                                         },
                                     .stop = stop.get_token()}),
                    Contains("stopped"));
  CHECK(shares.size() == 1);
  CHECK_THROWS_AS(model.run(text, {.progress = [](double) { throw std::out_of_range("enough"); }}),
                  std::out_of_range);
}

TEST_CASE("model: token numbers need no tokenizer", "[api][model]") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("mha-no-tokenizer-" + std::to_string(getpid()));
  fs::create_directory(folder);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(fs::path(data("bard-gpt2")) / file, folder / file);
  std::ofstream(folder / "tokenizer.json") << "{ broken";
  const Model broken(folder.string()), whole(data("bard-gpt2"));
  const Run run = broken.run(broken.tokens({5, 6, 7}));
  CHECK(run.notes().empty());
  CHECK(same_bits(run.logits(), whole.run(whole.tokens({5, 6, 7})).logits()));
  CHECK_THROWS_WITH(broken.tokens("text"), Contains("tokenizer.json"));
  fs::remove_all(folder);
}

TEST_CASE("model: what goes wrong is said in a program's words", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens("The king");
  const Run run = model.run(text, {.keep = {"layers.0.q", "layers.1.q"}});
  const auto error_of = [](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      CHECK_THAT(error.what(), !Contains("--"));
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  const std::pair<std::function<void()>, const char*> wrong[]{
      {[&] { run.tensor("q"); }, "of which layer? layers.0.q to layers.1.q"},
      {[&] { run.tensor("layers.0.k"); }, "was not kept; the run has layers.0.q, layers.1.q"},
      {[&] { run.tensor("layers.9.q"); }, "the model has 4 layers"},
      {[&] { run.tensor("nonsense"); }, "nonsense"},
      {[&] { run.resid(6); }, "0 to 3 are the streams before each, 4 or -1 the one after"},
      {[&] { model.run(text, {.keep = {"layers.4.q"}}); }, "the model has 4 layers"},
      {[&] { model.run(text, {.keep = {"q_rope"}}); }, "q_rope"},
      {[&] { model.run(text, {.patches = {"layers.4.q = zero"}}); }, "there is no layer 4"},
      {[&] { model.run(text, {.patches = {"q = zero"}}); }, "of which layer?"},
      {[&] {
         model.run(text, {.patches = {Patch::zero({Stage::q, 7})}});
       },
       "no layer '7'"},
      {[&] {
         model.run(text, {.patches = {Patch::zero({Stage::q, 0, {6}})}});
       },
       "6"},
      {[&] { run.with({Patch::zero({.stage = Stage::output, .layer = 0, .heads = {1}})}); },
       "has no heads"},
      {[&] {
         run.with({Patch::set({Stage::q, 0}, numbers({2, 3}, 1))});
       },
       "the value is (2, 3)"},
      {[&] { run.with({"layers.0.q"}); }, "PLACE = VALUE expected"},
      {[&] { run.with({"layers.0.q = zero"}, {.patches = {"layers.0.k = zero"}}); },
       "its first argument"},
      {[&] { model.tokens(std::vector<int>{}); }, "no token"},
      {[&] { model.tokens({5000}); }, "5000 is not a token: the vocabulary has 0 to"},
      {[&] { model.tokens({-1}); }, "-1 is not a token"},
      {[&] { model.tokens(""); }, "no token"},
      {[&] { model.batch(std::vector<std::string>{}); }, "there is no text"},
      {[&] { model.run(model.tokens({3})).loss(); }, "no position has a next token"},
      {[&] { run.predictions(9); }, "text 0 has"},
      {[&] { (void)text.ids(1); }, "there is no text 1"},
      {[&] { model.dims(4); }, "there is no layer '4'"},
      {[&] { model.dims("decoder.3.cross"); }, "there is no layer 'decoder.3.cross'"},
      {[&] { Model("nowhere"); }, "nowhere"},
      {[&] { Model(data("quickstart.json")); }, "checkpoint"},
      {[&] { Model(data("bard-llama")).run(text); }, "of another model"},
      {[&] { model.stream(text, {}, [](const At&, Place, const Tensor&) {}); }, "no stage"},
      {[&] { Patch::zero({.stage = Stage::q, .layer = 0, .heads = std::vector<int>{}}); },
       "no indexes"},
      {[&] {
         Patch::rows({Stage::q, 0}, nullptr);
       },
       "no function"},
      {[&] {
         run.with({Patch::rows({Stage::q, 0}, [](Place, const Tensor&) {
           return numbers({1, 3}, 1);
         })});
       },
       "of a row of"},
  };
  for (const auto& [work, message] : wrong) CHECK_THAT(error_of(work), Contains(message));
  const Model bert(data("bard-bert"));
  CHECK_THAT(error_of([&] { bert.run(bert.tokens("the king")).loss(); }),
             Contains("hidden tokens"));
}

TEST_CASE("model: derived stages are kept as steps are, a rollout through all layers",
          "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens(" my love, my good lord");
  const RunOptions keep{.keep = {"rollout", "weights_mean", "layers.1.divergence"}};
  const Run run = model.run(text, keep);
  CHECK(run.tensor("layers.1.divergence").shape() == Shape{6, 6});
  const std::size_t T = 6;
  std::vector<double> rolled(T * T);
  for (std::size_t t = 0; t < T; ++t) rolled[t * T + t] = 1;
  for (std::size_t n = 0; n < model.layers(); ++n) {
    const Tensor mean = run.tensor(fmt::format("layers.{}.weights_mean", n)),
                 rollout = run.tensor(fmt::format("layers.{}.rollout", n));
    std::vector<double> next(T * T);
    for (std::size_t t = 0; t < T; ++t) {
      double sum = 1;
      for (std::size_t s = 0; s < T; ++s) sum += value_at(mean, t * T + s);
      for (std::size_t k = 0; k < T; ++k)
        for (std::size_t s = 0; s < T; ++s)
          next[t * T + s] +=
              (value_at(mean, t * T + k) + (t == k ? 1 : 0)) / sum * rolled[k * T + s];
    }
    rolled = next;
    for (std::size_t i = 0; i < T * T; ++i)
      CHECK(value_at(rollout, i) == Approx(rolled[i]).margin(1e-12));
  }
  // A run that begins where another was changed has the rollout of a whole one.
  const std::vector<Patch> patches{Patch("layers.2.weights[3] = 0.25")};
  RunOptions patched = keep;
  patched.patches = patches;
  const Run whole = model.run(text, patched), from = run.with(patches, {.keep = {"rollout"}});
  for (std::size_t n = 0; n < model.layers(); ++n) {
    const std::string name = fmt::format("layers.{}.rollout", n);
    CHECK(compare_bits(whole.tensor(name), from.tensor(name)) == "");
  }
  CHECK_THROWS_WITH(model.run(text, {.patches = {Patch("layers.1.rollout = 0")}}),
                    Contains("patch those: weights"));
  CHECK_THROWS_WITH(run.tensor("layers.0.received"), Contains("was not kept"));
}
