#include <mha/files/inputs.hpp>

#include <mha/files/link.hpp>
#include <mha/files/text.hpp>

#include <map>
#include <mutex>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

namespace mha::io {

namespace {

using Identity = std::pair<dev_t, ino_t>;

/// What a file was when it was first mapped.
struct Mapped {
  std::string path;
  off_t size = 0;
  timespec written{};
  bool changed = false; ///< seen when it was opened again

  bool is(const struct stat& status) const {
    return size == status.st_size && written.tv_sec == status.st_mtim.tv_sec &&
           written.tv_nsec == status.st_mtim.tv_nsec;
  }
};

struct Known {
  std::mutex mutex;
  int guards = 0;
  std::map<Identity, std::string> files; ///< and folders
  std::map<Identity, Mapped> mapped;
  std::set<std::string> missing; ///< resolved paths of what will be read and is not there yet
};

Known& inputs() {
  static Known all;
  return all;
}

thread_local int unnoted = 0;

Identity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino};
}

[[noreturn]] void refuse_input(const std::string& path, const std::string& input, bool into) {
  const std::string name = path == "-" ? "standard output" : shown(path);
  const std::string also = input == path ? "" : fmt::format(" (as {})", shown(input));
  if (into)
    fail("{}: is a folder that is read{}, and what is made of it would lie between its files; give "
         "--output another name",
         name, also);
  fail("{}: is read{}, and would be replaced by what is made of it; give --output another name",
       name, also);
}

} // namespace

InputGuard::InputGuard() {
  const std::lock_guard lock(inputs().mutex);
  ++inputs().guards;
}

InputGuard::~InputGuard() {
  Known& all = inputs();
  const std::lock_guard lock(all.mutex);
  if (--all.guards > 0) return;
  all.files.clear(), all.mapped.clear(), all.missing.clear();
}

NotAnInput::NotAnInput() {
  ++unnoted;
}
NotAnInput::~NotAnInput() {
  --unnoted;
}

void note_input(const std::string& path, const struct stat& status, bool mapped) {
  // Pipes and terminals cannot be replaced, and share inodes with nothing.
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return;
  Known& all = inputs();
  const std::lock_guard lock(all.mutex);
  if (all.guards == 0 || unnoted > 0) return;
  all.files.emplace(identity_of(status), path);
  if (!mapped) return;
  const auto [at, added] =
      all.mapped.emplace(identity_of(status), Mapped{path, status.st_size, status.st_mtim, false});
  if (!added && !at->second.is(status)) at->second.changed = true;
}

void note_later_input(const std::string& path) {
  if (path == "-") return;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return note_input(path, status, false);
  Known& all = inputs();
  const std::string resolved = place_of(path);
  const std::lock_guard lock(all.mutex);
  if (all.guards > 0) all.missing.insert(resolved);
}

void require_no_input(const std::string& path, bool into) {
  Known& all = inputs();
  {
    const std::lock_guard lock(all.mutex);
    if (all.guards == 0) return;
  }
  struct stat status {};
  const bool there =
      path == "-" ? ::fstat(STDOUT_FILENO, &status) == 0 : ::stat(path.c_str(), &status) == 0;
  const std::string resolved = there ? "" : place_of(path);
  const std::lock_guard lock(all.mutex);
  if (!there && all.missing.contains(resolved)) refuse_input(path, path, into);
  if (!there) return;
  const auto input = all.files.find(identity_of(status));
  if (input != all.files.end() && S_ISDIR(status.st_mode) == into)
    refuse_input(path, input->second, into);
}

void require_unchanged_inputs() {
  Known& all = inputs();
  const std::lock_guard lock(all.mutex);
  for (const auto& [identity, mapped] : all.mapped) {
    struct stat status {};
    // Where another file has taken its name, the mapped one is what it was.
    const bool same = ::stat(mapped.path.c_str(), &status) == 0 && identity_of(status) == identity;
    if (mapped.changed || (same && !mapped.is(status)))
      fail("{}: was changed by another program while it was read: the result is of both versions; "
           "run again when it is whole",
           shown(mapped.path));
  }
}

} // namespace mha::io
