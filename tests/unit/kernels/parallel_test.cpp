#include <mha/system/parallel.hpp>

#include <catch2/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

TEST_CASE("every piece of work is done once, on any number of threads") {
  for (const std::size_t threads : {0u, 1u, 2u, 5u})
    for (const std::size_t count : {0u, 1u, 2u, 3u, 1000u}) {
      CAPTURE(threads, count);
      std::vector<std::atomic<int>> done(count);
      mha::parallel_for(count, threads, [&](std::size_t i) { ++done[i]; });
      std::size_t once = 0;
      for (const auto& times : done) once += times == 1;
      CHECK(once == count);
    }
}

TEST_CASE("one thread is the caller's, in order") {
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::size_t> order;
  const auto record = [&](std::size_t i) {
    CHECK(std::this_thread::get_id() == caller);
    order.push_back(i);
  };
  mha::parallel_for(4, 1, record);
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3});
  mha::parallel_for(1, 8, record);
  CHECK(order.size() == 5);
}

TEST_CASE("no more threads work than were asked for") {
  std::mutex lock;
  std::set<std::thread::id> seen;
  mha::parallel_for(200, 5, [&](std::size_t) {
    const std::lock_guard hold(lock);
    seen.insert(std::this_thread::get_id());
  });
  CHECK(seen.size() <= 5);
}

TEST_CASE("the first exception stops the work and reaches the caller") {
  for (const std::size_t threads : {1u, 2u, 5u}) {
    CAPTURE(threads);
    std::atomic<std::size_t> calls = 0;
    const auto work = [&](std::size_t i) {
      ++calls;
      if (i == 3) throw std::runtime_error("piece 3");
      std::this_thread::sleep_for(std::chrono::microseconds(100)); // time for the news to spread
    };
    CHECK_THROWS_WITH(mha::parallel_for(100000, threads, work), "piece 3");
    CHECK(calls < 100000);
  }
}

TEST_CASE("work may itself be shared out") {
  std::atomic<std::size_t> calls = 0;
  mha::parallel_for(4, 2,
                    [&](std::size_t) { mha::parallel_for(5, 2, [&](std::size_t) { ++calls; }); });
  CHECK(calls == 20);
}

TEST_CASE("a loop beside another one is its caller's alone, who waits for no thread") {
  std::mutex lock;
  std::vector<std::thread::id> workers;
  std::thread::id caller;
  const auto record = [&](std::size_t) {
    const std::lock_guard hold(lock);
    workers.push_back(std::this_thread::get_id());
  };
  mha::parallel_for(2, 2, [&](std::size_t i) {
    if (i > 0) return;
    // The loop that it is a task of has the team until the other caller is through.
    std::thread other([&] { mha::parallel_for(200, 8, record); });
    caller = other.get_id();
    other.join();
  });
  CHECK(workers == std::vector<std::thread::id>(200, caller));
}

TEST_CASE("loops that follow each other at once, or after threads have fallen asleep or ended") {
  std::size_t wrong = 0;
  for (std::size_t loop = 0; loop < 3000; ++loop) {
    const std::size_t threads = 2 + loop % 7, count = 1 + loop % 11;
    std::atomic<std::size_t> calls = 0;
    mha::parallel_for(count, threads, [&](std::size_t) { ++calls; });
    wrong += calls != count;
    if (loop % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (loop % 700 == 0) mha::end_waiting_threads();
  }
  CHECK(wrong == 0);
}

constexpr const char* ends_here = "MHA_TEST_ENDS_ITS_PROCESS";

// The next test runs this one in a new process. A fork alone would not do: it has none of the other
// threads, and a lock that one of them held stays locked, a sanitizer's at the end of a process
// too.
TEST_CASE("ends its process while another thread of it is in a loop", "[.]") {
  if (std::getenv(ends_here) == nullptr) return; // chosen by a pattern
  std::thread([] {
    for (;;)
      mha::parallel_for(
          64, 4, [](std::size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::exit(3);
}

TEST_CASE("a process ends while another thread of it is in a loop") {
  setenv(ends_here, "1", 1);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(30); // a process that hangs is ended by its signal
    execl("/proc/self/exe", "unit-tests",
          "ends its process while another thread of it is in a loop", "--out", "/dev/null",
          nullptr);
    _exit(1);
  }
  unsetenv(ends_here);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
}

TEST_CASE("there is at least one core") {
  CHECK(mha::core_count() >= 1);
}

TEST_CASE("a timer hears of each loop with workers, whose tasks the caller does") {
  struct Heard : mha::LoopTimer {
    Heard() { mha::time_loops(this); }
    ~Heard() override { mha::time_loops(nullptr); }
    void loop(std::size_t workers, const std::vector<double>& seconds) override {
      loops.emplace_back(workers, seconds.size());
    }
    std::vector<std::pair<std::size_t, std::size_t>> loops;
  };
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::pair<std::size_t, std::size_t>> done;
  {
    Heard heard;
    mha::parallel_for(5, 64, [&](std::size_t i, std::size_t worker) {
      CHECK(std::this_thread::get_id() == caller);
      done.emplace_back(i, worker);
    });
    mha::parallel_for(7, 3, [](std::size_t) {});
    mha::parallel_for(7, 1, [](std::size_t) {}); // no loop with workers
    CHECK_THROWS_AS(mha::parallel_for(2, 2, [](std::size_t) { throw std::runtime_error("no"); }),
                    std::runtime_error);
    CHECK(heard.loops == std::vector<std::pair<std::size_t, std::size_t>>{{5, 5}, {3, 7}});
  }
  CHECK(done ==
        std::vector<std::pair<std::size_t, std::size_t>>{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}});
  std::atomic<int> after = 0;
  mha::parallel_for(9, 2, [&](std::size_t) { ++after; });
  CHECK(after == 9);
}
