#include <mha/files/temporaries.hpp>

#include <unistd.h>

#include <ctime>
#include <memory>
#include <utility>

namespace mha::io {

namespace {

using Name = Temporary::Name;

SignalList<Name>& unfinished() {
  static auto* all = new SignalList<Name>; // a handler may run after statics are destroyed
  return *all;
}

std::atomic<bool> ending = false;
std::atomic<int> uninterrupted = 0;

void remove(const Name& name) noexcept {
  // rmdir keeps a folder that has other programs' files.
  if (name.kind == Temporary::Kind::file)
    ::unlink(name.path.c_str());
  else
    ::rmdir(name.path.c_str());
}

} // namespace

Temporary::Temporary(const std::string& path, Kind kind)
    : place_(&unfinished().add(std::make_unique<Name>(Name{path, kind}).release())) {}

Temporary& Temporary::operator=(Temporary&& other) noexcept {
  std::swap(place_, other.place_);
  return *this;
}

Temporary::~Temporary() {
  if (!place_) return;
  if (const std::unique_ptr<Name> name(SignalList<Name>::take(*place_)); name) remove(*name);
}

void Temporary::keep() {
  if (place_) const std::unique_ptr<Name> name(SignalList<Name>::take(*place_));
  place_ = nullptr;
}

Uninterrupted::Uninterrupted() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : ending_signals) sigaddset(&signals, signal);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  ++uninterrupted;
  while (ending) { // a handler is ending the program, so this thread only waits
    --uninterrupted;
    ::pause();
    ++uninterrupted;
  }
}

Uninterrupted::~Uninterrupted() {
  --uninterrupted;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void remove_temporaries(bool fault) noexcept {
  ending = true;
  constexpr timespec moment{0, 1'000'000};
  for (int waited = 0; uninterrupted > 0 && !(fault && waited == 100); ++waited)
    ::nanosleep(&moment, nullptr);
  for (const Temporary::Kind kind : {Temporary::Kind::file, Temporary::Kind::folder}) {
    bool more = true; // folders within folders go from the inside out
    while (more) {
      more = false;
      unfinished().for_each([&](SignalList<Name>::Place& place) {
        const Name* name = place.thing.load();
        if (!name || name->kind != kind) return;
        if (kind == Temporary::Kind::folder && ::rmdir(name->path.c_str()) != 0) return;
        if (!SignalList<Name>::take(place)) return;
        if (kind == Temporary::Kind::file) remove(*name);
        more = true;
      });
    }
  }
}

} // namespace mha::io
