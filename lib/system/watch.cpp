#include <mha/system/watch.hpp>

#include <atomic>
#include <utility>

namespace mha {

namespace {

std::atomic<Watcher*> watching = nullptr;

thread_local const StopCheck* innermost = nullptr;

} // namespace

StopCheck::StopCheck(std::function<void()> check)
    : check_(std::move(check)), outer_(std::exchange(innermost, this)) {}

StopCheck::~StopCheck() {
  innermost = outer_;
}

void StopCheck::make_all() {
  for (const StopCheck* check = innermost; check; check = check->outer_) check->check_();
}

void watch_computations(Watcher* watcher) {
  watching = watcher;
}

Watcher* watcher() {
  return watching;
}

} // namespace mha
