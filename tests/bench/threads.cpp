// The processor time of eight threads on one model beside that of the same runs one after the
// other, with one thread each and with the default; and whether their bits are those of lone runs.
// Medians of turns. Fails where bits differ, or eight at once take more than 1.1 times. Not a test:
//   threads-bench data/bard-gpt2 [TOKENS [ROUNDS]]

#include <mha/mha.hpp>

#include <sys/resource.h>

#include <algorithm>
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

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// `callers` times the same work, one after the other or a thread each.
template <class Work> Times timed(bool at_once, std::size_t callers, const Work& work) {
  return timed([&] {
    std::vector<std::jthread> hosts;
    for (std::size_t i = 0; i < callers; ++i)
      if (at_once)
        hosts.emplace_back([&work, i] { work(i); });
      else
        work(i);
  });
}

} // namespace

int main(int count, char** words) try {
  if (count < 2) throw mha::Error("a checkpoint is expected, and how many tokens and rounds");
  const int length = count > 2 ? std::atoi(words[2]) : 64,
            rounds = count > 3 ? std::atoi(words[3]) : 20;
  const mha::Model model(words[1]);
  constexpr std::size_t callers = 8, turns = 7;
  constexpr double allowed = 1.1;
  std::vector<mha::Tokens> texts;
  for (std::size_t i = 0; i < callers; ++i) {
    std::vector<int> ids;
    for (int t = 0; t < length; ++t) ids.push_back((t * 7 + static_cast<int>(i) * 13) % 61 + 1);
    texts.push_back(model.tokens(ids));
  }
  std::vector<mha::Tensor> alone(callers), together(callers);
  for (std::size_t i = 0; i < callers; ++i) alone[i] = model.run(texts[i]).logits();
  bool holds = true;
  for (const std::size_t threads : {std::size_t(1), std::size_t(0)}) {
    const auto runs = [&](std::size_t i) {
      for (int round = 0; round < rounds; ++round)
        together[i] = model.run(texts[i], {.threads = threads}).logits();
    };
    std::vector<double> one, all, ratio, wall;
    bool same = true;
    for (std::size_t turn = 0; turn < turns; ++turn) {
      const Times first = timed(false, callers, runs), then = timed(true, callers, runs);
      one.push_back(first.processor), all.push_back(then.processor);
      ratio.push_back(then.processor / first.processor), wall.push_back(first.wall / then.wall);
      for (std::size_t i = 0; i < callers; ++i)
        same = same && std::memcmp(alone[i].raw(), together[i].raw(), alone[i].bytes()) == 0;
    }
    std::printf("threads %zu: one after the other %.2f s of processors, eight at once %.2f: %.3f "
                "times, done %.2f times as fast; bits %s\n",
                threads, median(one), median(all), median(ratio), median(wall),
                same ? "the same" : "DIFFER");
    holds = holds && same && median(ratio) <= allowed;
  }
  return holds ? 0 : 1;
} catch (const mha::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
