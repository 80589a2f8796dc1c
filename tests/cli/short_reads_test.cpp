// What is read fails or comes short, and memory ends: one message, exit code 2, nothing left.

#include "support/faulty.hpp"
#include "support/sanitizers.hpp"
#include "support/tools.hpp"

#include <unistd.h>

#include <cerrno>

using namespace mha::test;
using Catch::Contains;

namespace {

/// X of 4096 tokens, 32 wide, in every format: large enough to be mapped, zeros inside.
struct Large : Folder {
  Large() {
    const Result made = shell(
        "{ printf '\\223NUMPY\\1\\0\\166\\0%-117s\\n' \"{'descr': '<f4', 'fortran_order': False, "
        "'shape': (4096, 32), }\"; head -c 524288 /dev/zero; } > X.npy && "
        "for end in npz safetensors; do \"$MHA\" convert X=X.npy --num-heads 2 -o X.$end; done",
        {.folder = path()});
    INFO(made.err);
    REQUIRE(made.code == 0);
  }
};

} // namespace

TEST_CASE("short reads: a mapped file that is cut meanwhile is named") {
  if (sanitized) return;
  const Large folder;
  for (const std::string name : {"X.npy", "X.npz", "X.safetensors"}) {
    const std::string file = folder.read(name);
    Faulty faulty{folder, "cut:" + name, "mmap"};
    const Result result = faulty({"dump", name, "--num-heads", "2", "-s", "q", "-o", "q.npy"}, 1);
    CHECK(faulty.happened);
    CHECK(result.code == 2);
    CHECK(result.err == "mha-inspect: " + name + ": became shorter while it was read\n");
    CHECK_FALSE(folder.has("q.npy"));
    CHECK(folder.names().size() == 4); // three files and the mark
    folder.write(name, file);
    std::filesystem::remove(folder.path("mark"));
  }
}

TEST_CASE("short reads: a mapped file that another program changes meanwhile is said, once") {
  if (sanitized) return;
  const Large folder;
  const std::vector<std::vector<std::string>> commands{
      {"dump", "X.npy", "--num-heads", "2", "-s", "q", "-o", "q.npy"},
      {"dump", "X.safetensors", "--num-heads", "2", "-s", "q", "-o", "q"},
      {"convert", "X.safetensors", "--num-heads", "2", "-o", "q.json"},
      {"show", "X.npy", "--num-heads", "2", "-s", "q", "--query", "0", "--head", "0"}};
  for (const std::vector<std::string>& command : commands) {
    Faulty faulty{folder, "change:" + command[1], "mmap"};
    const Result result = faulty(command, 1);
    INFO(command[0] << " " << result.err);
    CHECK(faulty.happened);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Catch::StartsWith("mha-inspect: " + command[1] +
                                             ": was changed by another program while it was read"));
    std::filesystem::remove(folder.path("mark"));
    CHECK(folder.names().size() == 3); // no result of two versions
  }
}

TEST_CASE("short reads: so is a small file that is cut before it is read") {
  if (sanitized) return;
  const Folder folder;
  folder.write("layer.json", small_layer_json());
  Faulty faulty{folder, "cut:layer.json", "fstat"};
  const Result result = faulty({"show", "layer.json"}, 1);
  CHECK(result.code == 2);
  CHECK(result.err == "mha-inspect: layer.json: became shorter while it was read\n");
}

TEST_CASE("short reads: a file that cannot be read is named, whatever it is") {
  const Folder folder;
  folder.write("layer.json", small_layer_json());
  std::filesystem::create_directory(folder.path("folder.npz"));
  const auto message = [&](const std::string& line) {
    const Result result = shell(line, {.folder = folder.path()});
    INFO(line);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    return result.err;
  };
  CHECK(message("\"$MHA\" show nowhere.json") == "mha-inspect: nowhere.json: no such file\n");
  CHECK_THAT(message("\"$MHA\" show folder.npz"), Contains("folder.npz: a folder with neither"));
  CHECK_THAT(message("\"$MHA\" show X=layer.json/x.npy"), Contains("no such file"));
  CHECK_THAT(message("\"$MHA\" show /dev/null"), Contains("/dev/null: the file is empty"));
  CHECK_THAT(message("\"$MHA\" show - < /dev/null"), Contains("standard input: the file is empty"));
  CHECK_THAT(message("\"$MHA\" show - <&-"),
             Contains("standard input: cannot read: Bad file descriptor"));
  if (have_tool("setpriv")) {
    std::filesystem::permissions(folder.path("layer.json"), std::filesystem::perms(0));
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
    const std::string nobody =
        geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
    CHECK(message(nobody + "\"$MHA\" show layer.json") ==
          "mha-inspect: layer.json: no permission to read it\n");
  }
}

TEST_CASE("short reads: a FIFO gives what it has") {
  const Folder folder;
  folder.write("layer.json", small_layer_json());
  const std::string line = "mkfifo pipe.json && { cat layer.json > pipe.json & } && \"$MHA\" show "
                           "pipe.json -s output -f csv";
  CHECK(shell(line, {.folder = folder.path()}).out ==
        run({"show", "layer.json", "-s", "output", "-f", "csv"}, {.folder = folder.path()}).out);
}

TEST_CASE("short reads: an error of the disk is told") {
  if (sanitized) return;
  const Folder folder;
  folder.write("layer.json", small_layer_json());
  Faulty faulty{folder, std::to_string(EIO), "read"};
  CHECK(faulty({"show", "layer.json"}, 1).err ==
        "mha-inspect: layer.json: cannot read: Input/output error\n");
}

TEST_CASE("memory: a request that gets none is a message, wherever it is") {
  if (sanitized) return;
  const Folder folder;
  folder.write("layer.json", small_layer_json());
  for (const std::string mode : {"memory:", "once:"})
    for (int request = 0; request < 1200; request += 37) {
      Faulty faulty{folder, mode + std::to_string(request), "open"};
      const Result result = faulty({"dump", "layer.json", "-o", "stages.npz"}, 1);
      INFO(mode << request << ": " << result.code << " " << result.err);
      CHECK((result.code == 0 || result.code == 2));
      CHECK(result.err.empty() == (result.code == 0));
      if (result.code == 2) CHECK(one_line(result.err));
      CHECK(folder.has("stages.npz") == (result.code == 0));
      CHECK(folder.names().size() == (result.code == 0 ? 3 : 2));
      std::filesystem::remove(folder.path("stages.npz"));
    }
}

TEST_CASE("memory: what cannot fit is refused before work starts") {
  if (sanitized) return; // which wants terabytes of addresses
  const Large folder;
  // 4096 × 4096 scores of two heads in float32: 128 MiB.
  const auto limited = [&](const std::string& arguments) {
    return shell("ulimit -v 120000; exec \"$MHA\" " + arguments, {.folder = folder.path()});
  };
  const Result shown = limited("show X=X.npy --num-heads 2 -s scores -f csv -o scores.csv");
  CHECK(shown.code == 2);
  CHECK_THAT(shown.err, Contains("take 0.1 GiB, there are 0.1; select heads or queries, or let "
                                 "`dump` stream them"));
  const Result json = limited("dump X=X.npy --num-heads 2 -s scores -o scores.json");
  CHECK(json.code == 2);
  CHECK_THAT(json.err, Contains("write .npz, .safetensors or a folder, which are streamed"));
  CHECK(folder.names().size() == 3);
}
