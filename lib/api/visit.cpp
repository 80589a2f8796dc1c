#include <mha/api/visit.hpp>

#include <mha/layer/settings.hpp>
#include <mha/system/memory.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

namespace mha::api {

namespace {

std::atomic<std::size_t> visits = 0;

} // namespace

Visit::Visit() {
  std::fegetenv(&host_);
  std::fesetenv(FE_DFL_ENV);
  if (visits++ == 0) keep_unused_memory(true);
}

Visit::~Visit() {
  std::fesetenv(&host_);
  if (--visits > 0) return;
  end_waiting_threads();
  keep_unused_memory(false);
}

void report(std::vector<Note>* list, std::vector<Note> notes) {
  if (!list) return;
  for (Note& note : notes)
    if (std::ranges::find(*list, note.text, &Note::text) == list->end())
      list->push_back(std::move(note));
}

void require_settings(const std::vector<std::pair<std::string, std::string>>& given) {
  Settings checked;
  for (const auto& [name, value] : given) set(checked, name, value, "settings");
}

} // namespace mha::api
