// No run writes what it reads, whatever name it is given, and names from files lead nowhere.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace mha::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// A .safetensors of 2 × 2 tensors.
std::string safetensors(const std::vector<std::string>& names) {
  nlohmann::json header;
  std::size_t at = 0;
  for (const std::string& name : names) {
    header[name] = {{"dtype", "F32"}, {"shape", {2, 2}}, {"data_offsets", {at, at + 16}}};
    at += 16;
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + std::string(at, '\0');
}

/// An .npy of float32 without a byte of data.
std::string empty_npy(const std::string& shape) {
  std::string head =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape);
  head.resize(117, ' ');
  head += '\n';
  return std::string("\x93NUMPY\1\0\x76\0", 10) + head;
}

struct Inputs : Folder {
  Inputs() {
    write("l.json", small_layer_json());
    write("t.json", R"({"tokens": ["a", "b", "c"]})");
    write("config.json", R"({"num_attention_heads": 2})");
    for (const char* to : {"l.npz", "l.safetensors", "folder"})
      REQUIRE(run({"convert", "l.json", "-o", to}, {.folder = path()}).code == 0);
    REQUIRE(run({"dump", "l.json", "-s", "output", "-o", "ref.npz"}, {.folder = path()}).code == 0);
    for (const char* part : {"1/2", "2/2"})
      REQUIRE(run({"dump", "l.json", "-s", "output", "--part", part, "-o",
                   std::string("part") + part[0] + ".npz"},
                  {.folder = path()})
                  .code == 0);
    fs::create_directory(path("model"));
    std::vector<std::string> names;
    for (const char* letter : {"q", "k", "v", "o"})
      names.push_back(fmt::format("model.layers.0.self_attn.{}_proj.weight", letter));
    write("model/model.safetensors", safetensors(names));
    write("model/config.json", R"({"model_type": "llama", "num_attention_heads": 1})");
    for (int layer = 0; layer <= 10; ++layer)
      write(fmt::format("x{}.json", layer), R"({"X": [[1, 2], [3, 4]]})");
    fs::create_symlink("l.json", path("link.json"));
    fs::create_hard_link(path("l.json"), path("hard.json"));
    fs::create_symlink("folder", path("folder-link"));
  }

  /// The names and contents of everything.
  std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> found;
    std::error_code circle;
    for (const auto& entry : fs::recursive_directory_iterator(path()))
      if (entry.is_regular_file(circle))
        found[fs::relative(entry.path(), path())] = read(fs::relative(entry.path(), path()));
    return found;
  }
  void refuses(const std::string& line, const std::string& part) const {
    const auto before = all();
    const Result result = shell("\"$MHA\" " + line, {.folder = path()});
    INFO(line << ": " << result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(part));
    CHECK((all() == before));
  }
};

const std::string would_replace = "would be replaced by the output; give --output another";

} // namespace

TEST_CASE_METHOD(Inputs, "inputs: no command replaces its source, whatever the name") {
  for (const std::string command :
       {"info", "stages", "show", "stats", "explain --query 0", "dump", "convert", "bench"})
    for (const std::string out :
         {"l.json", "./l.json", "link.json", "hard.json", "model/../l.json"})
      refuses(command + " l.json -o " + out, would_replace);
  refuses("report l.json -o l.json", "report writes .html, .htm, not json");
  refuses("map l.json -f svg -o hard.json", would_replace);
  refuses("show link.json -o l.json", would_replace);
  refuses("show hard.json -f json -o link.json", would_replace);
  refuses("dump X=l.json W_q=l.npz W_k=identity W_v=identity W_o=identity --num-heads 2 -q -s q -o "
          "l.npz",
          would_replace);
  refuses("show - -f json -o l.json < l.json", would_replace);
  refuses("show l.json >> l.json", would_replace);
}

TEST_CASE_METHOD(Inputs, "inputs: labels, configs, references, shards and parts are inputs, too") {
  refuses("dump l.json --tokens t.json -o t.json", would_replace);
  refuses("stats l.json --key-tokens t.json -o t.json", would_replace);
  refuses("show l.json -q --config config.json -o config.json", would_replace);
  refuses("diff l.json --against ref.npz -f json -o ref.npz", would_replace);
  refuses("diagnose l.json --against output=ref.npz:output -f json -o ref.npz", would_replace);
  refuses("dump model X=x0.json -o model/model.safetensors", would_replace);
  refuses("show model X=x0.json -f json -o model/config.json", would_replace);
  refuses("convert part1.npz part2.npz -o part2.npz", would_replace);
}

TEST_CASE_METHOD(Inputs, "inputs: placeholders and folders lead there, too") {
  fs::create_hard_link(path("l.npz"), path("0.npz"));
  refuses("dump l.npz -o '{layer}.npz' -s q", would_replace);
  fs::copy(path("t.json"), path("0.json"));
  refuses("show l.json -s weights -o '{head}.json' --head 0 --tokens 0.json", would_replace);
  // What a later layer reads.
  refuses("dump X='x{layer}.json' --layer 0,10 --num-heads 1 -s q -o 'x1{layer}.json'",
          would_replace);
  for (const std::string command : {"convert", "dump -s q"})
    for (const std::string out : {"folder", "folder/", "folder-link", "./folder/../folder"}) {
      refuses(command + " folder -o " + out, "is a folder that is read");
      refuses(command + " folder-link -o " + out, "is a folder that is read");
    }
  refuses("dump folder -s x -o folder/X.npy", would_replace);
}

TEST_CASE_METHOD(Inputs,
                 "inputs: --resume replaces an older result that is damaged, and no input") {
  write("out.json", "{");
  CHECK(run({"dump", "l.json", "-s", "q", "-o", "out{layer}.json", "--resume"}, {.folder = path()})
            .code == 0);
  CHECK(run({"dump", "l.json", "-s", "k", "-o", "out{layer}.json", "--resume"}, {.folder = path()})
            .code == 0);
  CHECK_THAT(read("out0.json"), Contains("\"k\""));
  // A second run on the results of the first is no harm.
  CHECK(run({"dump", "l.json", "-o", "new"}, {.folder = path()}).code == 0);
  CHECK(run({"dump", "l.json", "-o", "new"}, {.folder = path()}).code == 0);
}

TEST_CASE_METHOD(Inputs, "inputs: a link to nothing leads where it says, a circle is refused") {
  fs::create_symlink("made.npz", path("dangling.npz"));
  fs::create_symlink("dangling.npz", path("chain.npz"));
  CHECK(run({"dump", "l.json", "-s", "q", "-o", "chain.npz"}, {.folder = path()}).code == 0);
  CHECK(fs::is_symlink(path("dangling.npz")));
  CHECK(fs::is_symlink(path("chain.npz")));
  CHECK(fs::is_regular_file(fs::symlink_status(path("made.npz"))));
  fs::create_symlink("loop.json", path("loop.json"));
  fs::create_symlink("b.txt", path("a.txt"));
  fs::create_symlink("a.txt", path("b.txt"));
  fs::create_symlink("nowhere/x.json", path("far.json"));
  refuses("dump l.json -s q -o loop.json", "symbolic links");
  refuses("show l.json -o a.txt", "symbolic links");
  refuses("show l.json -s q -f npy -o loop.json", "symbolic links");
  refuses("dump l.json -s q -o far.json", "far.json: cannot write");
  fs::create_symlink("gone", path("dangling-folder"));
  refuses("dump l.json -o dangling-folder", "dangling-folder");
  for (const char* link : {"loop.json", "a.txt", "far.json", "dangling-folder"})
    CHECK(fs::is_symlink(path(link)));
}

TEST_CASE("inputs: a layer's name from a file is one part of a path") {
  const Folder folder;
  fs::create_directory(folder.path("work"));
  folder.write("victim.weights.json", "precious");
  folder.write("work/x.json", R"({"X": [[1, 2], [3, 4]]})");
  const auto layers = [&](const std::vector<std::string>& prefixes) {
    std::vector<std::string> names;
    for (const std::string& prefix : prefixes)
      for (const char* letter : {"q", "k", "v", "o"})
        names.push_back(prefix + ".self_attn." + letter + "_proj.weight");
    folder.write("work/evil.safetensors", safetensors(names));
  };
  const std::vector<std::string> commands{
      "dump evil.safetensors --layer all X=x.json --same-x --num-heads 1 -s weights -o "
      "'{layer}.weights.json'",
      "convert evil.safetensors --layer all X=x.json --same-x --num-heads 1 -o "
      "'{layer}.weights.json'",
      "show evil.safetensors --layer all X=x.json --same-x --num-heads 1 -s q -f json "
      "-o '{layer}.weights.json'",
      "stats evil.safetensors --layer all X=x.json --same-x --num-heads 1 -f json -o "
      "'{layer}.weights.json'",
      "explain evil.safetensors --layer all X=x.json --same-x --num-heads 1 --query 0 -f json "
      "-o '{layer}.weights.json'",
      "map evil.safetensors --layer all X=x.json --same-x --num-heads 1 -f svg -o "
      "'{layer}.weights.json'"};
  for (const std::vector<std::string>& prefixes : {std::vector<std::string>{"../victim", "a"},
                                                   {"..", "/tmp/victim"},
                                                   {".hidden", "a/../../b"},
                                                   {"\x1b[2J", "\xe2\x80\xae"},
                                                   {"{head}", "%2e"}}) {
    layers(prefixes);
    for (const std::string& command : commands) {
      const Result result = shell("\"$MHA\" --version >/dev/null; \"$MHA\" " + command + " -q",
                                  {.folder = folder.path("work")});
      INFO(command << " " << prefixes[0] << " " << result.err);
      CHECK(result.code == 0);
      CHECK(folder.names() == std::vector<std::string>{"victim.weights.json", "work"});
      CHECK(folder.read("victim.weights.json") == "precious");
      std::size_t made = 0;
      for (const auto& entry : fs::directory_iterator(folder.path("work"))) {
        const std::string name = entry.path().filename();
        CHECK(entry.is_regular_file());
        CHECK(name.find('\x1b') == std::string::npos);
        if (!name.ends_with(".weights.json")) continue;
        ++made;
        CHECK_FALSE(name.starts_with('.'));
        fs::remove(entry.path());
      }
      CHECK(made == 2);
    }
  }
}

TEST_CASE("inputs: of what lies in a folder, only regular files are read") {
  const auto refused = [](const Folder& folder, const std::string& place) {
    const Result result =
        shell(fmt::format("timeout 120 \"$MHA\" show {}", place), {.folder = folder.path()});
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    return result.err;
  };
  const auto only_regular = [](const std::string& name, const std::string& what) {
    return fmt::format(
        "mha-inspect: {}: is {}; only regular files are read from a folder\n", name,
        what);
  };
  const Folder folder;
  for (const char* name : {"device", "pipe", "socket", "config", "index", "folder"})
    fs::create_directory(folder.path(name));
  fs::create_symlink("/dev/zero", folder.path("device/model.safetensors"));
  CHECK(refused(folder, "device") == only_regular("device/model.safetensors", "a device"));
  REQUIRE(mkfifo(folder.path("pipe/X.npy").c_str(), 0600) == 0);
  CHECK(refused(folder, "pipe") == only_regular("pipe/X.npy", "a pipe"));
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  folder.path("socket/X.npy").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(refused(folder, "socket") == only_regular("socket/X.npy", "a socket"));
  close(server);
  folder.write("config/model.safetensors", safetensors({"X"}));
  fs::create_symlink("/dev/urandom", folder.path("config/config.json"));
  CHECK(refused(folder, "config") == only_regular("config/config.json", "a device"));
  folder.write("index/model.safetensors.index.json", R"({"weight_map": {"X": "a.safetensors"}})");
  REQUIRE(mkfifo(folder.path("index/a.safetensors").c_str(), 0600) == 0);
  CHECK(refused(folder, "index") == only_regular("index/a.safetensors", "a pipe"));
  fs::create_directory(folder.path("folder/X.npy"));
  CHECK(refused(folder, "folder") == "mha-inspect: folder/X.npy: is a folder, not a file\n");
  // Named by the user, a pipe is read; a device never.
  CHECK_THAT(refused(folder, "/dev/zero"), Contains("is a device"));
  CHECK_THAT(refused(folder, "X=/dev/urandom:f32[2,2] --num-heads 1"), Contains("is a device"));
  CHECK_THAT(refused(folder, "- < /dev/zero"), Contains("standard input: is a device"));
  folder.write("l.json", small_layer_json());
  CHECK(shell("\"$MHA\" show <(cat l.json)", {.folder = folder.path()}).code == 0);
}

TEST_CASE("inputs: shapes of no numbers and many places are refused in every format") {
  const Folder folder;
  const std::vector<std::string> shapes{"(65536, 65536, 0)", "(0, 65536, 65536)", "(65536, 0)",
                                        "(65536, 0, 65536)"};
  for (const std::string& shape : shapes) {
    std::string list = shape;
    std::erase(list, ' ');
    list.front() = '[', list.back() = ']';
    folder.write("weights.npy", empty_npy(shape));
    folder.write(
        "weights.json",
        fmt::format(R"({{"weights": {{"shape": {}, "dtype": "float32", "data": []}}}})", list));
    const std::string header =
        fmt::format(R"({{"weights":{{"dtype":"F32","shape":{},"data_offsets":[0,0]}}}})", list);
    const std::uint64_t length = header.size();
    folder.write("weights.safetensors",
                 std::string(reinterpret_cast<const char*>(&length), 8) + header);
    folder.write("raw.bin", "");
    fs::create_directory(folder.path("folder"));
    folder.write("folder/weights.npy", empty_npy(shape));
    REQUIRE(shell("rm -f w.npz; /usr/bin/python3 -c 'import zipfile as z; "
                  "z.ZipFile(\"w.npz\", \"w\").write(\"weights.npy\")'",
                  {.folder = folder.path()})
                .code == 0);
    for (const std::string& source :
         {std::string("weights.npy"), std::string("weights.json"), std::string("w.npz"),
          std::string("weights.safetensors"), std::string("folder"),
          fmt::format("weights=raw.bin:f32{}", list)}) {
      const Result result = run({"show", source}, {.folder = folder.path()});
      INFO(source << " " << shape << " " << result.err);
      CHECK(result.code == 2);
      CHECK(one_line(result.err));
      CHECK_THAT(result.err, Contains("an axis is 0, so its"));
    }
  }
  // A batch without an item is a layer as any other.
  folder.write("X.npy", empty_npy("(0, 5, 4)"));
  CHECK(run({"show", "X.npy", "--num-heads", "1"}, {.folder = folder.path()}).code == 0);
}
