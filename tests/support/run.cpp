#include "support/run.hpp"

#include "support/copies.hpp"
#include "support/places.hpp"
#include "support/sanitizers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace mha::test {

namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    read = ends[0], write = ends[1];
  }
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
  ~Pipe() { close_end(read), close_end(write); }
};

/// AddressSanitizer's options without a look for leaks, and without the frames of where memory was
/// taken, which cost a fifth of a short run: what uses memory wrongly is reported with all of its
/// own.
constexpr const char* no_leaks = "malloc_context_size=1:detect_leaks=0";

/// Whether LeakSanitizer looks at a run: at one of eight, as its look costs a fifth of a short run.
bool looks_for_leaks() {
  static int runs = 0;
  return runs++ % 8 == 0;
}

/// This process's variables with those of a run, whose leaks may be looked for.
std::vector<std::string> variables(const Setting& setting, bool leaks) {
  std::map<std::string, std::string> values;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    const std::size_t end = text.find('=');
    if (end != text.npos) values[std::string(text.substr(0, end))] = text.substr(end + 1);
  }
  if (sanitized && !leaks) values["ASAN_OPTIONS"] = no_leaks;
  for (const auto& [name, value] : setting.env)
    value.empty() ? static_cast<void>(values.erase(name)) : static_cast<void>(values[name] = value);
  values["MHA"] = program_path();
  std::vector<std::string> list;
  for (const auto& [name, value] : values) list.push_back(name + "=" + value);
  return list;
}

std::string folder_of(const Setting& setting) {
  return setting.folder.empty() ? source_folder() : setting.folder;
}

pid_t start(const std::vector<std::string>& words, const Setting& setting, const Pipe& in,
            const Pipe& out, const Pipe& err) {
  const std::string folder = folder_of(setting);
  const std::vector<std::string> environment = variables(setting, looks_for_leaks());
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.write, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&files, folder.c_str());
  const pid_t child = spawn(words, environment, &files);
  posix_spawn_file_actions_destroy(&files);
  return child;
}

/// Writes to a process that has these streams, and reads from it, until it closes its own.
Result converse(const Setting& setting, Pipe& in, Pipe& out, Pipe& err) {
  Pipe::close_end(in.read), Pipe::close_end(out.write), Pipe::close_end(err.write);

  std::signal(SIGPIPE, SIG_IGN); // a child that does not read its input
  Result result;
  std::size_t written = 0;
  std::array<char, 65536> buffer{};
  while (out.read >= 0 || err.read >= 0) {
    if (in.write >= 0 && written == setting.input.size()) Pipe::close_end(in.write);
    std::array<pollfd, 3> ends{
        {{out.read, POLLIN, 0}, {err.read, POLLIN, 0}, {in.write, POLLOUT, 0}}};
    poll(ends.data(), ends.size(), -1);
    const auto drain = [&](const pollfd& end, int& file, std::string& text) {
      if (file < 0 || !(end.revents & (POLLIN | POLLHUP))) return;
      const ssize_t n = ::read(file, buffer.data(), buffer.size());
      if (n <= 0)
        Pipe::close_end(file);
      else
        text.append(buffer.data(), static_cast<std::size_t>(n));
    };
    drain(ends[0], out.read, result.out);
    drain(ends[1], err.read, result.err);
    if (in.write >= 0 && (ends[2].revents & (POLLOUT | POLLERR))) {
      const ssize_t n = ::write(in.write, setting.input.data() + written,
                                std::min<std::size_t>(setting.input.size() - written, 65536));
      if (n < 0)
        Pipe::close_end(in.write);
      else
        written += static_cast<std::size_t>(n);
    }
  }
  return result;
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result execute(const std::vector<std::string>& words, const Setting& setting) {
  Pipe in, out, err;
  const pid_t child = start(words, setting, in, out, err);
  Result result = converse(setting, in, out, err);
  int status = 0;
  waitpid(child, &status, 0);
  result.code = code_of(status);
  return result;
}

/// Whether a run sees its variables in a copy, too: the loader and the sanitizers read theirs
/// before.
bool can_be_copied(const Setting& setting) {
  return !starter_path().empty() &&
         std::none_of(setting.env.begin(), setting.env.end(), [](const auto& variable) {
           return variable.first.starts_with("LD_") || variable.first.ends_with("SAN_OPTIONS");
         });
}

/// A run in a copy of a process that waits: without the loading of the program and the start of a
/// sanitizer.
Result run_copy(const std::vector<std::string>& arguments, const Setting& setting) {
  static std::array<std::unique_ptr<Copies>, 2> waiting; // without and with a look for leaks
  const bool leaks = looks_for_leaks();
  std::unique_ptr<Copies>& copies = waiting[leaks];
  if (!copies) copies = std::make_unique<Copies>(variables({}, leaks));
  Pipe in, out, err;
  copies->start(folder_of(setting), variables(setting, leaks), arguments,
                {in.read, out.write, err.write});
  Result result = converse(setting, in, out, err);
  result.code = code_of(copies->status());
  return result;
}

} // namespace

Result run(const std::vector<std::string>& arguments, const Setting& setting) {
  if (can_be_copied(setting)) return run_copy(arguments, setting);
  std::vector<std::string> words{program_path()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return execute(words, setting);
}

Result shell(const std::string& line, const Setting& setting) {
  return execute({"bash", "-o", "pipefail", "-c", line}, setting);
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "mha-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
  root_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::string Folder::write(const std::string& name, const std::string& text) const {
  std::ofstream(root_ / name, std::ios::binary) << text;
  return path(name);
}

std::string Folder::read(const std::string& name) const {
  std::ifstream file(root_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string small_layer_json() {
  return R"({"num_heads": 2, "causal": true, "tokens": ["the", "cat", "sat"],
  "X": [[0.5, -1.0, 2.0, 0.25], [1.5, 0.75, -0.5, 1.0], [-2.0, 0.125, 0.375, 3.0]],
  "W_q": [[1, 0.5, -0.25, 0], [0.5, 2, 0, 1], [-1, 0, 0.75, 0.5], [0.25, -0.5, 1, 1.5]],
  "W_k": [[0.5, 1, 0, -0.5], [1, -1, 0.5, 0.25], [0, 0.25, 1, 2], [-0.75, 0.5, 0.125, 1]],
  "W_v": [[2, 0, 1, 0.5], [0, 1, -1, 0.25], [0.5, 0.5, 0, 1], [1, -2, 0.25, 0]],
  "W_o": [[1, 0, 0, 0.5], [0, 1, 0.5, 0], [0.25, 0, 1, 0], [0, -0.5, 0, 1]]}
)";
}

} // namespace mha::test
