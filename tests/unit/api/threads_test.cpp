// Every call of a model from eight threads at once, each with the bits of a lone call.
// `tests/guest.sh` runs it under ThreadSanitizer.

#include "support/sanitizers.hpp"
#include "unit/api/layers.hpp"

#include <sys/resource.h>

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

/// The process's seconds on processors while some work is done.
template <class Work> double processor_time_of(const Work& work) {
  const auto so_far = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  const double before = so_far();
  work();
  return so_far() - before;
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

TEST_CASE("model: eight threads take the processor time of one after the other", "[api][model]") {
  if (sanitized) return;
  // A caller that waited for the team by spinning would take a multiple. What else the machine does
  // only adds to a turn's time: the least of some turns counts (tests/bench/threads.cpp has
  // medians).
  constexpr std::size_t callers = 8, rounds = 4, most_turns = 20;
  constexpr double allowed = 1.1;
  const Model model(data("bard-gpt2"));
  std::vector<int> ids(64);
  for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<int>(t * 7 % 61);
  const Tokens text = model.tokens(ids);
  for (const std::size_t threads : {std::size_t(1), std::size_t(0)}) {
    const auto runs = [&] {
      for (std::size_t round = 0; round < rounds; ++round)
        (void)model.run(text, {.threads = threads}).loss();
    };
    runs();
    double least = 1e9;
    for (std::size_t turn = 0; turn < most_turns && least > allowed; ++turn) {
      const double lone = processor_time_of([&] {
        for (std::size_t i = 0; i < callers; ++i) runs();
      });
      const double together = processor_time_of([&] {
        std::vector<std::jthread> hosts;
        for (std::size_t i = 0; i < callers; ++i) hosts.emplace_back(runs);
      });
      least = std::min(least, together / lone);
    }
    INFO("threads = " << threads);
    CHECK(least <= allowed);
  }
}
