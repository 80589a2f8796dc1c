// Stages, weights and patches of a whole model by name: which layer a name means.

#include "unit/api/layers.hpp"

#include <cstring>
#include <thread>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

std::vector<std::string> names(std::initializer_list<std::size_t> layers, const char* stage) {
  std::vector<std::string> list;
  for (const std::size_t n : layers) list.push_back(fmt::format("layers.{}.{}", n, stage));
  return list;
}

} // namespace

TEST_CASE("model: a name says which layers are kept", "[api][model]") {
  const Model model(data("bard-gpt2")); // four layers
  const Tokens text = model.tokens("To be, or not to be");
  struct Case {
    const char* name;
    std::vector<std::string> kept;
  };
  for (const Case& one : {Case{"weights", names({0, 1, 2, 3}, "weights")},
                          {"layers.*.weights", names({0, 1, 2, 3}, "weights")},
                          {"blocks.*.attn.hook_pattern", names({0, 1, 2, 3}, "weights")},
                          {"layers.1.weights", names({1}, "weights")},
                          {"blocks.1.attn.hook_pattern", names({1}, "weights")},
                          {"layers.-1.weights", names({3}, "weights")},
                          {"layers.-4.q", names({0}, "q")},
                          {"layers.1-2.q", names({1, 2}, "q")},
                          {"layers.0-3.pattern", names({0, 1, 2, 3}, "weights")}}) {
    INFO(one.name);
    CHECK(model.run(text, {.keep = {one.name}}).kept() == one.kept);
    std::vector<std::string> streamed;
    model.stream(text, {one.name}, [&](const At& at, Place, const Tensor&) {
      const std::string name = fmt::format("layers.{}.{}", at.layer.id(), name_of(at.stage));
      if (streamed.empty() || streamed.back() != name) streamed.push_back(name);
    });
    CHECK(streamed == one.kept);
  }
  // All of a layer: what "*" keeps of it.
  std::vector<std::string> of_second;
  for (const std::string& name : model.run(text, {.keep = {"*"}}).kept())
    if (name.starts_with("layers.2.")) of_second.push_back(name);
  CHECK(of_second.size() > 15);
  CHECK(model.run(text, {.keep = {"layers.2.*"}}).kept() == of_second);
  CHECK(model.run(text, {.keep = {"layers.-2.*", "layers.2.q"}}).kept() == of_second);
}

TEST_CASE("model: a run has the names that give a stage, in the order of the computation",
          "[api][model]") {
  const Model model(data("bard-gpt2"));
  const std::vector<std::string> keep{"logits", "final", "embed", "layers.1-2.q", "layers.0.k"},
      order{"embed", "layers.0.k", "layers.1.q", "layers.2.q", "final", "logits"};
  const Patch patch("embed *= 0.5");
  const Run run = model.run(model.tokens("To be"), {.keep = keep, .patches = {patch}});
  CHECK(run.kept() == order);
  for (const auto& [name, has] :
       {std::pair("k", true), {"q", false}, {"layers.1.q", true}, {"v", false}, {"embed", true}}) {
    INFO(name);
    CHECK(run.has(name) == has);
    CHECK(error_of([&, wanted = name] { (void)run.tensor(wanted); }).empty() == has);
  }
  std::vector<std::string> streamed;
  Tensor embed;
  model.stream(run.tokens(), keep,
               [&](const At& at, Place, const Tensor& rows) {
                 const std::string id = at.layer.id();
                 const std::string name =
                     (id.empty() ? "" : "layers." + id + ".") + std::string(name_of(at.stage));
                 if (streamed.empty() || streamed.back() != name) streamed.push_back(name);
                 if (name == "embed") embed = rows;
               },
               {.patches = {patch}});
  CHECK(streamed == order);
  CHECK(same_bits(embed, run.tensor("embed")));
}

TEST_CASE("model: layers are counted from the end as from the start", "[api][model]") {
  const Model model(data("bard-llama"));
  const Tokens text = model.tokens("To be, or not to be");
  const Run run = model.run(text, {.keep = {"weights"}});
  CHECK(same_bits(run.tensor("layers.-1.weights"), run.tensor("layers.3.weights")));
  CHECK(same_bits(run.tensor("blocks.-2.attn.hook_pattern"), run.tensor("layers.2.weights")));
  CHECK(run.has("layers.-4.weights"));
  CHECK(same_bits(run.resid(-1), run.resid(4)));
  CHECK(same_bits(run.resid(-5), run.resid(0u)));
  CHECK(same_bits(model.weight("layers.-1.W_o"), model.weight("layers.3.W_o")));
  CHECK(same_bits(model.weight("layers.1.norm.weight"), model.weight("layers.-3.norm.weight")));
  for (const auto& [from_end, from_start] :
       {std::pair("layers.-1.head_out[-1] = zero", "layers.3.head_out[5] = zero"),
        {"layers.-2.resid_post *= 0.5", "layers.2.resid_post *= 0.5"}})
    CHECK(same_bits(run.with({from_end}).logits(), run.with({from_start}).logits()));
  for (const char* name : {"layers.-5.weights", "layers.9.weights", "layers.2-9.weights",
                           "layers.-0.weights", "layers.2-1.weights", "layers.x.weights"}) {
    INFO(name);
    const std::string asked = error_of([&] { (void)run.tensor(name); });
    CHECK_THAT(asked, Catch::StartsWith(name) && !Contains("--"));
    CHECK(error_of([&] { model.run(text, {.keep = {name}}); }) == asked);
    CHECK_THAT(error_of([&] { run.with({std::string(name) + " = zero"}); }),
               Catch::StartsWith(name));
  }
}

TEST_CASE("model: what is no weight, stage or value is said by its own name", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Run run = model.run(model.tokens("To be"), {.keep = {"layers.1.q"}});
  const std::pair<std::function<void()>, const char*> wrong[]{
      {[&] { model.weight("wte"); }, "the model has no weight of this name: W_E, W_pos"},
      {[&] { model.weight("embed"); }, "embed is a stage, not a weight"},
      {[&] { model.weight("layers.0.mlp.up"); }, "layer 0 has no mlp.up"},
      {[&] { model.weight("mlp.in"); }, "of which layer? Give it as layers.0.mlp.in"},
      {[&] { model.weight("b_U"); }, "b_U: the model has none"},
      {[&] { model.with("W_U", numbers({1}, 1)); }, "weights of attention are exchanged"},
      {[&] { model.with("layers.0.mlp.in", numbers({1}, 1)); }, "weights of attention are"},
      {[&] { model.weight("W_q"); }, "W_q: of which layer? Give it as layers.0.W_q"},
      {[&] { model.weight("layers.1-2.W_q"); }, "of which layer?"},
      {[&] { model.weight("layers.0.W_qq"); },
       "'W_qq' is neither a tensor of a layer nor a stage; did you mean 'W_q'?"},
      {[&] { model.weight("layers.0.q"); }, "q is a stage, not a weight"},
      {[&] { model.with("layers.0.q", numbers({1}, 1)); }, "q is a stage, not a weight"},
      {[&] { run.tensor("layers.1.wieghts"); },
       "no stage is called 'layers.1.wieghts'; did you mean 'weights'?"},
      {[&] { run.tensor("layers.1.k"); }, "the run has layers.1.q: name it in keep"},
      {[&] { model.run(run.tokens(), {.keep = {"layers.1.W_q"}}); },
       "no stage is called 'layers.1.W_q': W_q is a tensor that the layer is made of"},
      {[&] {
         run.with({Patch::zero({Stage::q, 1, 6})});
       },
       "layers.1.q[6] = zero: 6: there are 6"},
      {[&] {
         run.with({Patch::zero({Stage::q, 1, {0, 7}, -9})});
       },
       "layers.1.q[[0,7],-9] = zero"},
      {[&] { run.with({"layers.1.q = zeor"}); }, "'zeor' is not a value: a number, zero, mean"},
      {[&] { run.resid(-6); }, "resid(-6): the model has 4 layers"},
      {[&] { model.stream(run.tokens(), {"q"}, nullptr); }, "there is no function"},
      {[&] { Model(""); }, "no model is named"}};
  for (const auto& [work, message] : wrong) CHECK_THAT(error_of(work), Contains(message));
}

TEST_CASE("model: a layer by itself has no input", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Layer alone = model.layer(1);
  CHECK(alone.X.empty());
  CHECK_FALSE(alone.W_q.empty());
  CHECK_THAT(error_of([&] { run(alone, {Stage::q}); }), Contains("X is missing") &&
                                                            Contains("layer(1, tokens) has one") &&
                                                            Contains("{\"X\", tensor}"));
  CHECK(model.dims(1).d_model == 96);
}

TEST_CASE("model: settings that the model contradicts are refused when it is opened",
          "[api][model]") {
  const std::pair<std::pair<const char*, const char*>, const char*> settings[]{
      {{"num_heads", "5"}, "5 query heads do not divide into 2 key/value heads"},
      {{"num_heads", "0"}, "num_heads"},
      {{"num_kv_heads", "4"}, "num_kv_heads"},
      {{"rope", "sideways"}, "rope is 'sideways'"},
      {{"rope_dims", "7"}, "rope_dims"},
      {{"scale", "wide"}, "scale is 'wide'"},
      {{"softcap", "-1"}, "softcap is '-1'"},
      {{"window_left", "-7"}, "window_left"},
      {{"nun_heads", "2"}, "did you mean 'num_heads'?"}};
  for (const auto& [setting, part] : settings) {
    const std::string said = error_of([&, &one = setting] {
      Model(data("bard-llama"), {.settings = {{one.first, one.second}}});
    });
    INFO(setting.first << " " << setting.second << ": " << said);
    CHECK_THAT(said, Contains(part) && !Contains("--"));
  }
  const auto gpt2 = [](const char* heads) {
    return Model(data("bard-gpt2"), {.settings = {{"num_heads", heads}}});
  };
  CHECK_THAT(error_of([&] { gpt2("5"); }), Contains("288 columns do not split into 5 query"));
  CHECK(gpt2("4").dims(3).d_k == 24);
}

TEST_CASE("api: rows that are streamed of unequal texts are each text's own", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Tokens batch = model.batch({"To be, or not to be", "The king", "O Romeo, Romeo!"});
  const Layer layer = model.layer(1, batch);
  for (const char* stage : {"weights", "row_sum", "head_out", "k", "output", "resid_post"}) {
    INFO(stage);
    std::vector<std::size_t> rows(batch.count()), heads(batch.count());
    stream(layer, stage_named(stage), [&](Place place, const Tensor& of) {
      CHECK((of.shape()[0] == place.count && place.count > 0));
      CHECK(place.token + place.count <= batch.length(place.batch));
      rows[place.batch] += place.count;
      heads[place.batch] = place.head + 1;
    });
    for (std::size_t b = 0; b < batch.count(); ++b) CHECK(rows[b] == heads[b] * batch.length(b));
  }
}

TEST_CASE("api: NaN in an input is noted", "[api]") {
  Tensors tensors = small_tensors();
  std::vector<float> x(20, 1);
  x[7] = std::numeric_limits<float>::quiet_NaN();
  tensors[0].second = tensor(x, {5, 4});
  std::vector<Note> notes;
  layer(tensors, {.num_heads = 2}, {.notes = &notes});
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].is_warning());
  CHECK_THAT(notes[0].text, Catch::StartsWith("X has 1 NaN of 20 numbers, the first at [1, 3]"));
  notes.clear();
  std::vector<float> wide(5 * 64, 1);
  wide[3] = std::numeric_limits<float>::infinity();
  load(data("induction"), 1, {{"X", tensor(wide, {5, 64})}}, {.notes = &notes});
  CHECK(std::ranges::any_of(notes,
                            [](const Note& note) { return note.text.starts_with("X has 1 inf"); }));
}

TEST_CASE("api: eight threads get notes of their own", "[api][model]") {
  const Model model(data("bard-gpt2"), {.settings = {{"scale", "0.2"}}});
  const std::vector<Note> of_model = model.notes();
  REQUIRE(of_model.size() == 1);
  const std::string broken = "To be \xff or not";
  const auto texts_of = [](const std::vector<Note>& notes) {
    std::vector<std::string> texts;
    for (const Note& note : notes) texts.push_back(note.text);
    return texts;
  };
  const auto notes_of_run = [&](std::size_t i) {
    const Tokens tokens = i % 2 == 0 ? model.tokens(broken) : model.tokens("To be");
    const Run run = model.run(tokens, {.threads = 1}).with({"layers.1.q = zero"});
    return texts_of(run.notes());
  };
  const auto even = notes_of_run(0), odd = notes_of_run(1);
  REQUIRE((even.size() == odd.size() + 1 && !odd.empty()));
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 3; ++turn) {
        if (notes_of_run(i) != (i % 2 == 0 ? even : odd)) wrong[i] = "of a run";
        if (texts_of(model.notes()) != texts_of(of_model)) wrong[i] = "of the model";
        std::vector<Note> own;
        load(data("induction"), 1, "hidden.npz:layers.1", {.notes = &own});
        std::vector<Note> again;
        load(data("induction"), 1, "hidden.npz:layers.1", {.notes = &again});
        if (texts_of(own) != texts_of(again)) wrong[i] = "of a layer";
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& what : wrong) CHECK(what.empty());
}
