// Every call of the system fails once, at every place where it is made: always a whole result or
// one message, and never half a file, one left over, or an old one harmed.

#include "support/faulty.hpp"
#include "support/sanitizers.hpp"
#include "support/tools.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>

using namespace mha::test;
using Catch::Contains;

namespace {

/// What is in a folder and below, by name.
std::map<std::string, std::string> contents_of(const std::string& path) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    const std::string name = std::filesystem::relative(entry.path(), path);
    std::ifstream file(entry.path(), std::ios::binary);
    all[name] = entry.is_directory() ? "" : std::string{std::istreambuf_iterator<char>(file), {}};
  }
  return all;
}

/// What `arguments` leave in out/ without a fault, where `before` was.
std::map<std::string, std::string> whole(const Folder& folder, const std::string& before,
                                         const std::vector<std::string>& arguments) {
  std::filesystem::remove_all(folder.path("out"));
  std::filesystem::copy(folder.path(before), folder.path("out"),
                        std::filesystem::copy_options::recursive);
  const Result result = run(arguments, {.folder = folder.path()});
  INFO(result.err);
  REQUIRE(result.code == 0);
  return contents_of(folder.path("out"));
}

/// Runs with a fault at every place until there are no more; afterwards out/ is as it was, or as it
/// is without a fault: a signal that comes when all is written may find it so. Returns how many
/// places there were.
int try_all(Faulty faulty, const std::string& before, const std::vector<std::string>& arguments,
            int code = 2) {
  const Folder& folder = faulty.folder;
  const auto expected = whole(folder, before, arguments);
  const auto old = contents_of(folder.path(before));
  for (int at = 1; at < 1000; ++at) {
    std::filesystem::remove_all(folder.path("out"));
    std::filesystem::copy(folder.path(before), folder.path("out"),
                          std::filesystem::copy_options::recursive);
    const Result result = faulty(arguments, at);
    if (!faulty.happened) return at - 1;
    INFO(arguments.back() << ", " << faulty.what << " at call " << at << ": " << result.code << " "
                          << result.err);
    CHECK((result.code == 0 || result.code == code));
    if (result.code == 2) {
      CHECK(one_line(result.err));
      CHECK_THAT(result.err, Catch::StartsWith("mha-inspect: "));
    } else {
      CHECK(result.err.empty());
    }
    const auto left = contents_of(folder.path("out"));
    const bool is_whole = left == expected, is_old = left == old;
    CHECK((result.code == 0 ? is_whole : is_old || (code > 128 && is_whole)));
  }
  return 1000;
}

/// A layer, an empty folder `new`, and `old` with what would be replaced.
struct Place : Folder {
  Place() {
    write("layer.json", small_layer_json());
    for (const std::string name : {"new", "old", "old/stages"})
      std::filesystem::create_directory(path(name));
    for (const std::string name :
         {"old/stages.npz", "old/stages.safetensors", "old/stages.json", "old/stages.npy",
          "old/stages/output.npy", "old/stages/weights.npy", "old/stages/mine.txt"})
      write(name, "old");
  }
};

std::vector<std::string> dump_to(const std::string& path) {
  const std::string stages = path.ends_with(".npy") ? "weights" : "weights,output";
  return {"dump", "layer.json", "-s", stages, "-o", path};
}

const std::string targets[] = {"out/stages.npz",  "out/stages.safetensors",
                               "out/stages.json", "out/stages.npy",
                               "out/stages",      "out/a/b"};

} // namespace

TEST_CASE("faults: a full disk at any call leaves what was there") {
  if (sanitized) return; // what is loaded first must be the sanitizer
  const Place place;
  int places = 0;
  for (const std::string& target : targets)
    for (const std::string before : {"new", "old"})
      places += try_all({place, std::to_string(ENOSPC)}, before, dump_to(target));
  CHECK(places > 100);
}

TEST_CASE("faults: so do a quota, a broken disk and a file that may not grow") {
  if (sanitized) return;
  const Place place;
  for (const int code : {EDQUOT, EIO, EFBIG})
    CHECK(try_all({place, std::to_string(code)}, "old", dump_to("out/stages")) > 10);
  const Result result = shell("ulimit -f 1; exec \"$MHA\" dump layer.json -o new/stages.npz",
                              {.folder = place.path()});
  CHECK(result.code == 2);
  CHECK(result.err == "mha-inspect: new/stages.npz: cannot write: File too large\n");
  CHECK(contents_of(place.path("new")).empty());
}

TEST_CASE("faults: a write that takes less than it was given goes on") {
  if (sanitized) return;
  const Place place;
  for (const std::string& target : targets) {
    Faulty faulty{place, "short", "pwrite"};
    const auto expected = whole(place, "new", dump_to(target));
    std::filesystem::remove_all(place.path("out"));
    std::filesystem::create_directory(place.path("out"));
    CHECK(faulty(dump_to(target), 1).code == 0);
    CHECK((contents_of(place.path("out")) == expected));
  }
}

TEST_CASE("faults: Ctrl-C and SIGTERM at any call leave nothing of ours") {
  if (sanitized) return;
  const Place place;
  for (const std::string& target : targets) {
    CHECK(try_all({place, "signal:2", "open,pwrite,mkdir,close,rename"}, "old", dump_to(target),
                  130) > 4);
    CHECK(try_all({place, "signal:15", "pwrite,rename"}, "new", dump_to(target), 143) >= 2);
  }
}

TEST_CASE("faults: nor does any other signal that ends the program") {
  if (sanitized) return;
  const Place place;
  for (const int signal : {SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1, SIGPROF, SIGRTMIN + 3})
    for (const std::string& target : targets)
      CHECK(try_all({place, "signal:" + std::to_string(signal), "pwrite,rename"}, "old",
                    dump_to(target), 128 + signal) >= 2);
  for (const int fault : {SIGABRT, SIGSEGV, SIGFPE})
    CHECK(try_all({place, "signal:" + std::to_string(fault), "pwrite"}, "old",
                  dump_to("out/stages.npz"), 128 + fault) >= 1);
}

TEST_CASE("faults: a program that was started with a signal ignored goes on") {
  if (sanitized) return;
  const Place place;
  const Result result =
      shell("trap '' QUIT USR1; LD_PRELOAD=" + faults_path() +
                " FAULT_DO=signal:3 FAULT_CALLS=pwrite FAULT_AT=1 FAULT_MARK=mark "
                "\"$MHA\" dump layer.json -o new/stages.npz",
            {.folder = place.path()});
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  CHECK(place.has("mark"));
}

TEST_CASE("faults: standard output that fails is a message, and a closed pipe is none") {
  if (sanitized) return;
  const Place place;
  std::filesystem::create_directory(place.path("tmp"));
  for (const std::string format : {"npz", "safetensors", "json"})
    for (int at = 1; at < 100; ++at) {
      Faulty faulty{place, std::to_string(ENOSPC), "", false, {{"TMPDIR", place.path("tmp")}}};
      const Result result =
          faulty({"dump", "layer.json", "-s", "weights,output", "-f", format, "-o", "-"}, at);
      if (!faulty.happened) break;
      INFO(format << " " << at << " " << result.err);
      CHECK((result.code == 0 || (result.code == 2 && one_line(result.err))));
      CHECK(std::filesystem::is_empty(place.path("tmp")));
    }
  const Result full =
      shell("\"$MHA\" dump layer.json -s output -o - > /dev/full", {.folder = place.path()});
  CHECK(full.err == "mha-inspect: standard output: cannot write: No space left on device\n");
  CHECK(full.code == 2);
  const Result closed = shell("\"$MHA\" dump layer.json -s output -f json -o - | true; "
                              "echo ${PIPESTATUS[0]}",
                              {.folder = place.path()});
  CHECK(closed.err.empty());
  CHECK(closed.out == "0\n");
}

TEST_CASE("faults: places that cannot be written are named, with the cure where there is one") {
  const Place place;
  const auto refused = [&](const std::string& path, const std::string& format) {
    const Result result = run({"dump", "layer.json", "-s", "weights", "-f", format, "-o", path},
                              {.folder = place.path()});
    CHECK(result.code == 2);
    return result.err;
  };
  const auto before = contents_of(place.path());
  CHECK(refused("old", "npz") == "mha-inspect: old: cannot write: it is a folder\n");
  CHECK(refused("layer.json/x.npy", "npy") ==
        "mha-inspect: layer.json/x.npy: cannot write: Not a directory\n");
  CHECK_THAT(refused("layer.json/", "npy"), Contains("cannot write: not a folder"));
  CHECK((contents_of(place.path()) == before));
  // Root may write anywhere: without root's rights, which setpriv takes away.
  if (!have_tool("setpriv")) return;
  std::filesystem::permissions(place.path("new"), std::filesystem::perms(0555));
  std::filesystem::permissions(place.path(), std::filesystem::perms(0755));
  const Result result =
      shell((geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "") +
                std::string("\"$MHA\" dump layer.json -s weights -o new/x.npy"),
            {.folder = place.path()});
  CHECK(result.code == 2);
  CHECK(result.err == "mha-inspect: new/x.npy: cannot write: Permission denied\n");
}
