#pragma once
// A visit: what every call of the public functions holds while it lasts.

#include <mha/model.hpp>
#include <mha/system/error.hpp>
#include <mha/system/note.hpp>
#include <mha/system/watch.hpp>

#include <cfenv>
#include <string>
#include <utility>
#include <vector>

namespace mha {
struct Request;
}

namespace mha::api {

/// While a visit exists, threads wait for work and freed memory is kept for reuse. When the last
/// one ends, the threads end and unused memory returns to the system, as does the memory of results
/// that are freed later. The host's process is then unchanged, and may fork. During a visit the
/// thread rounds to nearest and keeps subnormal numbers, whatever the host has set (a program
/// linked with -ffast-math flushes them to zero), so that bits depend on the layer alone.
class Visit {
public:
  Visit();
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

private:
  std::fenv_t host_; ///< the thread's floating-point environment before
};

/// Adds notes, each text once; null: none are kept.
void report(std::vector<Note>* list, std::vector<Note> notes);

/// The ids of the layers that sources hold, in order; {""} for one layer without a number.
std::vector<std::string> layer_ids(Request request);

/// Throws Error for an unknown setting, and for a value that it cannot have.
void require_settings(const std::vector<std::pair<std::string, std::string>>& given);

/// Does the work within a visit.
template <class Work> auto visiting(const Work& work) {
  const Visit visit;
  return work();
}

/// The same for long work: a stop requested by the options' token is an Error before the next
/// layer.
template <class Work> auto visiting(const RunOptions& options, const Work& work) {
  return visiting([&] {
    const StopCheck stop([&] {
      if (options.stop.stop_requested())
        fail("stopped: a stop was requested while the model was computed");
    });
    return work();
  });
}

} // namespace mha::api
