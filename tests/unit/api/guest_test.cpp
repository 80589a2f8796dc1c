// A good guest: what belongs to the process is as it was after every call.

#include "support/run.hpp"
#include "support/sanitizers.hpp"
#include "unit/api/layers.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clocale>
#include <filesystem>
#include <functional>
#include <iostream>
#include <locale>
#include <map>
#include <thread>

using namespace mha;
using namespace mha::test;

namespace {

std::size_t entries_in(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

/// A function of a library of threads, where it is installed.
int ask(const char* library, const char* function) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  void* const found = handle ? dlsym(handle, function) : nullptr;
  return found ? reinterpret_cast<int (*)()>(found)() : -1;
}
void tell(const char* library, const char* function, int number) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (void* const found = handle ? dlsym(handle, function) : nullptr)
    reinterpret_cast<void (*)(int)>(found)(number);
}

/// What a call must not change, as text by name.
std::map<std::string, std::string> process_state() {
  std::map<std::string, std::string> state;
  state["OpenMP threads"] = std::to_string(ask("libgomp.so.1", "omp_get_max_threads"));
  state["OpenBLAS threads"] = std::to_string(ask("libopenblas.so.0", "openblas_get_num_threads"));
  for (int number = 1; number < 32; ++number) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    state["signal " + std::to_string(number)] =
        std::to_string(reinterpret_cast<std::uintptr_t>(action.sa_handler)) + " " +
        std::to_string(action.sa_flags);
  }
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (int number = 1; number < 32; ++number)
    state["blocked"] += sigismember(&blocked, number) ? '1' : '0';
  state["C locale"] = std::setlocale(LC_ALL, nullptr);
  state["locale"] = std::locale().name();
  for (char** variable = environ; *variable; ++variable)
    state["environment"] += *variable + std::string("\n");
  state["folder"] = std::filesystem::current_path().string();
  const mode_t mask = umask(0);
  umask(mask);
  state["umask"] = std::to_string(mask);
  state["open files"] = std::to_string(entries_in("/proc/self/fd"));
  // One that was waited for may be listed a moment longer.
  static const std::size_t at_first = entries_in("/proc/self/task");
  for (int turn = 0; turn < 200 && entries_in("/proc/self/task") > at_first; ++turn) usleep(1000);
  state["threads"] = std::to_string(entries_in("/proc/self/task"));
  const std::filesystem::path scratch = std::filesystem::temp_directory_path();
  for (const auto& entry : std::filesystem::directory_iterator(scratch))
    state["scratch"] += entry.path().filename().string() + " ";
  return state;
}

/// Every public call, well and badly made.
std::map<std::string, std::function<void()>> public_calls() {
  const Layer large = large_layer();
  const Cache cache = run(large, {Stage::weights});
  const Model bard(data("bard-gpt2"));
  const Tokens king = bard.tokens("The king");
  const Run words = bard.run(king, {.keep = {"weights"}});
  return {
      {"layer", [] { large_layer(); }},
      {"layer, wrong", [] { layer(small_tensors(), {.num_heads = 4}); }},
      {"load", [] { load(data("induction"), 1, "hidden.npz:layers.1"); }},
      {"load, in memory",
       [] {
         load(data("induction"), 1, {{"X", numbers({5, 64}, 1)}});
       }},
      {"load, wrong", [] { load("nowhere"); }},
      {"layers_in", [] { layers_in(data("induction")); }},
      {"run", [=] { run(large); }},
      {"run, some",
       [=] {
         run(large, {Stage::weights, Stage::output});
       }},
      {"run, by name", [=] { run(large, std::vector<std::string>{"pattern"}, 3); }},
      {"run, wrong", [=] { run(large, {Stage::q_rope}); }},
      {"tensor", [=] { cache.tensor("pattern"); }},
      {"tensor, wrong", [=] { cache.tensor("q"); }},
      {"with", [=] { run(large.with("weights", cache.tensor("weights"))); }},
      {"with, wrong", [=] { large.with("weights", numbers({1}, 1)); }},
      {"stream", [=] { stream(large, Stage::weights, [](Place, const Tensor&) {}); }},
      {"stream, thrown",
       [=] { stream(large, Stage::weights, [](Place, const Tensor&) { throw Error("enough"); }); }},
      {"model", [] { Model opened(data("bard-gpt2")); }},
      {"model, wrong", [] { Model opened("nowhere"); }},
      {"tokens", [=] { bard.tokens("The king"); }},
      {"run a text", [=] { bard.run(king, {.keep = {"*"}}); }},
      {"run ids",
       [=] {
         bard.run(bard.tokens({1, 2, 3}), {.keep = {"weights"}});
       }},
      {"run, wrong", [=] { bard.run(king, {.keep = {"layers.9.q"}}); }},
      {"patched", [=] { words.with({"layers.1.head_result[0] = zero"}).loss(); }},
      {"patched, wrong", [=] { words.with({"layers.9.q = zero"}); }},
      {"stream of a text",
       [=] { bard.stream(king, {"weights"}, [](const At&, Place, const Tensor&) {}); }},
      {"tensor of a text", [=] { words.tensor("layers.0.weights"); }},
      {"layer of a text", [=] { bard.layer(1, king); }},
  };
}

/// What the child's work reports, by its exit code; −1 where it hangs or dies.
int in_child(const std::function<int()>& work, bool at_once = true) {
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const int code = work();
    if (at_once) _exit(code);
    close(1), close(2);
    std::exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_CASE("api: the process is as it was after every call", "[api]") {
  const Folder scratch; // of its own: other programs come and go in /tmp
  const char* const host = std::getenv("TMPDIR");
  const std::string of_the_host = host ? host : "";
  setenv("TMPDIR", scratch.path("").c_str(), 1);
  tell("libgomp.so.1", "omp_set_num_threads", 3);
  tell("libopenblas.so.0", "openblas_set_num_threads", 2);
  for (const auto& [name, call] : public_calls()) {
    const auto before = process_state();
    try {
      call();
    } catch (const Error&) {
    }
    const auto after = process_state();
    INFO(name);
    CHECK(before == after);
  }
  host ? setenv("TMPDIR", of_the_host.c_str(), 1) : unsetenv("TMPDIR");
}

TEST_CASE("api: a host's locale does not change what is read", "[api]") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  const Tensor expected = run(load(data("quickstart.json"))).tensor("output");
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"})
    if (std::setlocale(LC_ALL, name))
      CHECK(same_bits(run(load(data("quickstart.json"))).tensor("output"), expected));
  std::setlocale(LC_ALL, before.c_str());
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    std::string do_grouping() const override { return "\1"; }
  };
  const std::locale host = std::locale::global(std::locale(std::locale::classic(), new Comma));
  CHECK(same_bits(run(load(data("quickstart.json"))).tensor("output"), expected));
  CHECK_THAT(
      error_of([] {
        layer({{"X", numbers({1200, 1500}, 1)}, {"W_q", numbers({3, 3}, 1)}}, {.num_heads = 3});
      }),
      Catch::Contains("1500"));
  std::locale::global(host);
}

TEST_CASE("api: several threads of the host call at once", "[api]") {
  const Layer large = large_layer(), induction = load(data("induction"), 1, "hidden.npz:layers.1");
  const Tensor first = run(large).tensor("output"), second = run(induction).tensor("output");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host)
    hosts.emplace_back([&, host] {
      for (int turn = 0; turn < (sanitized ? 3 : 10); ++turn) {
        const bool even = (host + turn) % 2 == 0;
        const Tensor found = run(even ? large : induction).tensor("output");
        if (!same_bits(found, even ? first : second)) ++wrong;
        const Layer own = load(data("induction"), 1, "hidden.npz:layers.1");
        if (!same_bits(own.X, induction.X)) ++wrong;
      }
    });
  for (std::thread& host : hosts) host.join();
  CHECK(wrong == 0);
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("api: calls work after fork", "[api]") {
  const Layer large = large_layer();
  const Tensor expected = run(large).tensor("output");
  const auto compute = [&] {
    const Cache cache = run(large, std::vector<std::string>{"output"}, 4);
    return same_bits(cache.tensor("output"), expected) ? 0 : 1;
  };
  CHECK(in_child(compute) == 0);
  if (!sanitized) CHECK(in_child(compute, false) == 0); // LeakSanitizer looks at the child, too
  // A child of a child, and the parent goes on.
  CHECK(in_child([&] { return compute() + in_child(compute); }) == 0);
  CHECK(compute() == 0);
  // While another thread computes, and holds what the child finds held.
  std::atomic<bool> ended = false;
  std::thread busy([&] {
    while (!ended) run(large);
  });
  for (int turn = 0; turn < (sanitized ? 2 : 8); ++turn) CHECK(in_child(compute) == 0);
  ended = true;
  busy.join();
}
#endif

TEST_CASE("api: memory returns to the system when a call ends", "[api]") {
  if (sanitized) return; // keeps what is given back, to watch it
  const auto resident = [] {
    std::size_t pages = 0, unused = 0;
    FILE* file = std::fopen("/proc/self/statm", "r");
    REQUIRE(file);
    CHECK(std::fscanf(file, "%zu %zu", &unused, &pages) == 2);
    std::fclose(file);
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  };
  const Layer large =
      layer({{"X", numbers({1500, 64}, 1)}, {"W_q", numbers({64, 64}, 2)}}, {.num_heads = 4});
  run(large, {Stage::output});
  const std::size_t before = resident();
  for (int turn = 0; turn < 3; ++turn) run(large); // 300 MB of maps
  CHECK(resident() < before + (16 << 20));
}
