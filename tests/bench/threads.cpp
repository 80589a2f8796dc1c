// The processor time of eight threads on one model beside that of the same runs one after the
// other, with one thread each and with the default; and whether their bits are those of lone runs.
// Not a test:
//   threads-bench data/bard-gpt2 [TOKENS [ROUNDS]]

#include <mha/mha.hpp>

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// The process's time on processors so far.
double processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Times {
  double processor, wall;
};
template <class Work> Times timed(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double before = processor_time();
  work();
  return {processor_time() - before,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

} // namespace

int main(int count, char** words) try {
  if (count < 2) throw mha::Error("a checkpoint is expected, and how many tokens and rounds");
  const int length = count > 2 ? std::atoi(words[2]) : 64,
            rounds = count > 3 ? std::atoi(words[3]) : 20;
  const mha::Model model(words[1]);
  constexpr std::size_t callers = 8;
  std::vector<mha::Tokens> texts;
  for (std::size_t i = 0; i < callers; ++i) {
    std::vector<int> ids;
    for (int t = 0; t < length; ++t) ids.push_back((t * 7 + static_cast<int>(i) * 13) % 61 + 1);
    texts.push_back(model.tokens(ids));
  }
  std::vector<mha::Tensor> alone(callers), together(callers);
  for (std::size_t i = 0; i < callers; ++i) alone[i] = model.run(texts[i]).logits();
  for (const std::size_t threads : {std::size_t(1), std::size_t(0)}) {
    const auto runs = [&](std::size_t i) {
      for (int round = 0; round < rounds; ++round)
        together[i] = model.run(texts[i], {.threads = threads}).logits();
    };
    const Times one = timed([&] {
      for (std::size_t i = 0; i < callers; ++i) runs(i);
    });
    const Times all = timed([&] {
      std::vector<std::jthread> hosts;
      for (std::size_t i = 0; i < callers; ++i) hosts.emplace_back([&, i] { runs(i); });
    });
    bool same = true;
    for (std::size_t i = 0; i < callers; ++i)
      same = same && std::memcmp(alone[i].raw(), together[i].raw(), alone[i].bytes()) == 0;
    std::printf("threads %zu: one after the other %.2f s of processors (%.2f s), eight at once "
                "%.2f (%.2f): "
                "%.3f times; bits %s\n",
                threads, one.processor, one.wall, all.processor, all.wall,
                all.processor / one.processor, same ? "the same" : "DIFFER");
  }
} catch (const mha::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
