#include <mha/model/independent_passes.hpp>
#include <mha/system/error.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

// Which passes run side by side, with how many threads each; progress; errors.

using namespace mha;

namespace {

struct Seen {
  std::multiset<std::size_t> passes, threads;
  std::vector<std::size_t> reached;
  bool on_caller = true;
};

Seen run(std::size_t count, std::size_t rows, std::size_t threads) {
  Seen seen;
  std::mutex adding;
  const std::thread::id caller = std::this_thread::get_id();
  independent_passes(
      count, rows, threads,
      [&](std::size_t i, std::size_t inside) {
        const std::lock_guard hold(adding);
        seen.passes.insert(i), seen.threads.insert(inside);
      },
      [&](std::size_t done) {
        seen.on_caller = seen.on_caller && std::this_thread::get_id() == caller;
        seen.reached.push_back(done);
      });
  return seen;
}

} // namespace

TEST_CASE("passes over few rows run side by side, one thread each; others have all threads") {
  struct Case {
    std::size_t count, rows, threads, inside;
  };
  for (const Case& one : {Case{7, 128, 3, 1}, Case{7, 512, 3, 1}, Case{7, 513, 3, 3},
                          Case{7, 128, 1, 1}, Case{2, 128, 3, 3}, Case{7, 4096, 3, 3}}) {
    const Seen seen = run(one.count, one.rows, one.threads);
    INFO(one.count << " passes of " << one.rows << " rows on " << one.threads);
    CHECK(seen.passes.size() == one.count);
    CHECK(std::set(seen.passes.begin(), seen.passes.end()).size() == one.count);
    CHECK(seen.threads.count(one.inside) == one.count);
    CHECK(seen.on_caller);
    CHECK(std::is_sorted(seen.reached.begin(), seen.reached.end()));
    if (one.inside == one.threads) CHECK(seen.reached.size() == one.count);
    CHECK(seen.reached.back() == one.count);
  }
  CHECK(run(0, 128, 2).passes.empty());
}

TEST_CASE("the error of a pass ends the others and reaches the caller") {
  for (const std::size_t rows : {std::size_t{16}, std::size_t{4096}}) {
    std::atomic<std::size_t> begun = 0;
    CHECK_THROWS_AS(independent_passes(1000, rows, 2,
                                       [&](std::size_t i, std::size_t) {
                                         ++begun;
                                         if (i == 3) fail("layer 3: no such file");
                                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                       }),
                    Error);
    CHECK(begun < 1000);
  }
}
