#pragma once
// The program as a process that waits at `main` and is copied for each run (matrix/starter.cpp).

#include <spawn.h>
#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace mha::test {

/// Starts a program, found by PATH, with these variables and no signal ignored; without a copy of
/// this process's memory, which fork() would make at each of thousands of starts. Throws
/// std::runtime_error where it cannot be started.
pid_t spawn(const std::vector<std::string>& words, const std::vector<std::string>& variables,
            const posix_spawn_file_actions_t* files = nullptr);

class Copies {
public:
  /// Starts the process with these variables.
  explicit Copies(const std::vector<std::string>& variables);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Starts a copy: its folder, variables and arguments, and its standard streams. `status` waits
  /// for it.
  void start(const std::string& folder, const std::vector<std::string>& variables,
             const std::vector<std::string>& arguments, const std::array<int, 3>& streams);
  /// What waitpid reports of the copy.
  int status();

private:
  int socket_ = -1;
  pid_t process_ = 0;
};

} // namespace mha::test
