#include <mha/system/parallel.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
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

TEST_CASE("there is at least one core") {
  CHECK(mha::core_count() >= 1);
}
