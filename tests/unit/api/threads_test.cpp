// Every call of a model from eight threads at once, each with the bits of a lone call.
// `tests/guest.sh` runs it under ThreadSanitizer; tests/bench/threads.cpp measures what it takes.

#include "unit/api/layers.hpp"

#include <algorithm>
#include <functional>
#include <thread>

using namespace mha;
using namespace mha::test;

namespace {

using Calls = std::vector<std::function<Tensor()>>;

Tensor of_sizes(const std::vector<std::string>& texts) {
  std::vector<int> sizes;
  for (const std::string& text : texts) sizes.push_back(static_cast<int>(text.size()));
  return tensor(sizes, {sizes.size()});
}

/// The public functions of a model and of a run that threads share.
Calls calls_of(const std::string& folder, const Model& model, const Run& run, const Run& other,
               bool causal) {
  const Tokens text = run.tokens();
  return {
      [=] { return model.run(text, {.keep = {"*"}}).tensor("layers.0.q"); },
      [=] { return model.run(text, {.threads = 1}).resid(-1); },
      [=] { return run.with({"layers.-1.head_result[0] = zero"}).resid(-1); },
      [=] { return run.with({"layers.0.head_out[1] = mean"}).resid(-1); },
      [=] { return run.with({Patch::from("layers.1.head_out[0]", other)}).resid(-1); },
      [=] {
        return run
            .with(
                {Patch::rows("layers.0.head_out[0]", [](Place, const Tensor& row) { return row; })})
            .resid(-1);
      },
      [=] { return run.logits(); },
      [=] { return causal ? tensor(run.losses()[0], {text.length() - 1}) : run.logits(); },
      [=] { return tensor(std::vector<double>{run.predictions()[0].logit}, {1}); },
      [=] { return run.heads("entropy"); },
      [=] { return run.effects("kl"); },
      [=] { return model.weight("layers.0.W_q"); },
      [=] { return tensor(std::vector<std::uint64_t>{model.dims(1).H}, {1}); },
      [=] { return model.with("layers.0.W_o", model.weight("layers.1.W_o")).run(text).resid(-1); },
      [=] { return mha::run(model.layer(1, text), {Stage::output}).tensor("output"); },
      [=] {
        Tensor last;
        model.stream(text, {"weights"}, [&](const At&, Place, Tensor rows) { last = rows; });
        return last;
      },
      [=] {
        return model.run(model.batch({std::vector<int>{1, 2, 3}, {4}})).resid(-1);
      },
      [=] { return of_sizes(model.tokens("The king is dead").pieces()); },
      [=] {
        return tensor(model.tokens("O Romeo, Romeo!").ids(),
                      {model.tokens("O Romeo, Romeo!").length()});
      },
      [=] {
        const Model opened(folder);
        return opened.run(opened.tokens({5, 9})).resid(-1);
      },
  };
}

} // namespace

TEST_CASE("model: every call from eight threads has the bits of a lone call", "[api][model]") {
  for (const std::string name : {"bard-gpt2", "bard-llama", "bard-bert"}) {
    INFO(name);
    const Model model(data(name));
    const std::vector<int> ids{5, 9, 3, 20, 7}, others{5, 9, 3, 21, 8};
    const Run shared = model.run(model.tokens(ids), {.keep = {"weights"}}),
              other = model.run(model.tokens(others));
    const Model own(data(name));
    const bool causal = name != "bard-bert";
    const Calls together = calls_of(data(name), model, shared, other, causal),
                lone = calls_of(data(name), own, own.run(own.tokens(ids)),
                                own.run(own.tokens(others)), causal);
    std::vector<Tensor> expected;
    for (const auto& call : lone) expected.push_back(call());
    std::vector<std::string> wrong(8);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < wrong.size(); ++i)
      threads.emplace_back([&, i] {
        for (std::size_t k = 0; k < together.size(); ++k) {
          const std::size_t which = (7 * k + 3 * i) % together.size(); // each in its own order
          try {
            if (!same_bits(together[which](), expected[which]))
              wrong[i] += std::to_string(which) + " ";
          } catch (const std::exception& error) {
            wrong[i] += error.what();
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<std::string>(8));
  }
}
