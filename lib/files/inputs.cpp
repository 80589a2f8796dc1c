#include <mha/files/inputs.hpp>

#include <mha/files/paths.hpp>
#include <mha/files/text.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

namespace mha::io {

namespace {

using Identity = std::pair<dev_t, ino_t>;

/// The state of a file when it was first mapped.
struct Mapped {
  std::string path;
  off_t size = 0;
  timespec written{};
  bool changed = false; ///< had changed when it was opened again

  bool is(const struct stat& status) const {
    return size == status.st_size && written.tv_sec == status.st_mtim.tv_sec &&
           written.tv_nsec == status.st_mtim.tv_nsec;
  }
};

/// A folder whose files are read together.
struct ReadFolder {
  std::string path;
  bool checkpoint = false; ///< a checkpoint or tokenizer; otherwise .npy files
};

struct KnownInputs {
  std::mutex mutex;
  int guards = 0;
  std::map<Identity, ReadFolder> folders;
  std::map<Identity, std::pair<std::string, std::string>> members; ///< their path, their folder's
  std::map<Identity, std::string> files;                           ///< and folders
  std::map<Identity, Mapped> mapped;
  std::set<std::string> missing; ///< resolved paths of inputs that do not exist yet
};

KnownInputs& inputs() {
  static KnownInputs all;
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
    fail("{}: is a folder that is read{}, and the output would be put between its files; give "
         "<output> another name",
         name, also);
  fail("{}: is read{}, and would be replaced by the output; give <output> another name", name,
       also);
}

[[noreturn]] void refuse_member(const std::string& path, const std::string& folder,
                                std::string_view why) {
  fail("{}: {} {}, which is read; give <output> another name", shown(path), why, shown(folder));
}

/// Whether programs that read a checkpoint's folder would read a file of this name.
bool is_of_checkpoint(std::string_view name) {
  constexpr std::array<std::string_view, 5> endings{".safetensors", ".index.json", ".bin", ".pt",
                                                    ".gguf"};
  constexpr std::array<std::string_view, 12> names{"config.json",         "generation_config.json",
                                                   "tokenizer.json",      "tokenizer_config.json",
                                                   "vocab.json",          "special_tokens_map.json",
                                                   "added_tokens.json",   "vocab.txt",
                                                   "chat_template.jinja", "merges.txt",
                                                   "tokenizer.model",     "spiece.model"};
  if (name.starts_with('.')) return false;
  return is_one_of(name, names) ||
         std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

/// Refuses a path in a folder of inputs under a name that would be read with them.
void require_not_beside(const KnownInputs& all, const std::string& path, const std::string& place) {
  const std::filesystem::path file(place);
  const std::filesystem::path parent = file.has_parent_path() ? file.parent_path() : ".";
  struct stat status {};
  if (::stat(parent.c_str(), &status) != 0) return;
  const auto folder = all.folders.find(identity_of(status));
  if (folder == all.folders.end()) return;
  const std::string name = file.filename().string();
  const bool tensors = !folder->second.checkpoint && name.ends_with(".npy");
  if (tensors || is_of_checkpoint(name))
    refuse_member(path, folder->second.path, "would be read with the files of");
}

} // namespace

InputGuard::InputGuard() {
  const std::lock_guard lock(inputs().mutex);
  ++inputs().guards;
}

InputGuard::~InputGuard() {
  KnownInputs& all = inputs();
  const std::lock_guard lock(all.mutex);
  if (--all.guards > 0) return;
  all.files.clear(), all.mapped.clear(), all.missing.clear();
  all.folders.clear(), all.members.clear();
}

NotAnInput::NotAnInput() {
  ++unnoted;
}
NotAnInput::~NotAnInput() {
  --unnoted;
}

void note_input(const std::string& path, const struct stat& status, bool mapped) {
  // Pipes and terminals cannot be replaced, and no other file has their inodes.
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return;
  KnownInputs& all = inputs();
  const std::lock_guard lock(all.mutex);
  if (all.guards == 0 || unnoted > 0) return;
  all.files.emplace(identity_of(status), path);
  if (!mapped) return;
  const auto [at, added] =
      all.mapped.emplace(identity_of(status), Mapped{path, status.st_size, status.st_mtim, false});
  if (!added && !at->second.is(status)) at->second.changed = true;
}

void note_folder(const std::string& path) {
  namespace fs = std::filesystem;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
  note_input(path, status, false);
  KnownInputs& all = inputs();
  const std::lock_guard lock(all.mutex);
  if (all.guards == 0 || unnoted > 0) return;
  const auto [folder, added] = all.folders.emplace(identity_of(status), ReadFolder{path});
  if (!added) return;
  std::error_code ignored;
  for (fs::directory_iterator at(path, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (!is_of_checkpoint(name)) continue;
    folder->second.checkpoint = true;
    if (::stat(at->path().c_str(), &status) == 0)
      all.members.emplace(identity_of(status), std::pair(at->path().string(), path));
  }
}

void note_later_input(const std::string& path) {
  if (path == "-") return;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return note_input(path, status, false);
  KnownInputs& all = inputs();
  const std::string resolved = canonical_path(path);
  const std::lock_guard lock(all.mutex);
  if (all.guards > 0) all.missing.insert(resolved);
}

void require_no_input(const std::string& path, bool into) {
  KnownInputs& all = inputs();
  {
    const std::lock_guard lock(all.mutex);
    if (all.guards == 0) return;
  }
  struct stat status {};
  const bool exists =
      path == "-" ? ::fstat(STDOUT_FILENO, &status) == 0 : ::stat(path.c_str(), &status) == 0;
  const std::string resolved = path == "-" ? "" : canonical_path(path);
  const std::lock_guard lock(all.mutex);
  if (!exists && all.missing.contains(resolved)) refuse_input(path, path, into);
  const auto input = exists ? all.files.find(identity_of(status)) : all.files.end();
  if (input != all.files.end() && S_ISDIR(status.st_mode) == into)
    refuse_input(path, input->second, into);
  const auto member = exists && !into ? all.members.find(identity_of(status)) : all.members.end();
  if (member != all.members.end()) refuse_member(path, member->second.second, "belongs to");
  if (into || path == "-") return;
  require_not_beside(all, path, path), require_not_beside(all, path, resolved);
}

void require_unchanged_inputs() {
  KnownInputs& all = inputs();
  const std::lock_guard lock(all.mutex);
  for (const auto& [identity, mapped] : all.mapped) {
    struct stat status {};
    // If another file has taken the name, the mapped file itself is unchanged.
    const bool same = ::stat(mapped.path.c_str(), &status) == 0 && identity_of(status) == identity;
    if (mapped.changed || (same && !mapped.is(status)))
      fail("{}: was changed by another program while it was read: the result mixes both versions; "
           "run again when it is complete",
           shown(mapped.path));
  }
}

} // namespace mha::io
