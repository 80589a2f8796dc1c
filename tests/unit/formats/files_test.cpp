#include "unit/formats/support.hpp"
#include <mha/formats/formats.hpp>

#include <catch2/catch.hpp>

#include <thread>

#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>

using namespace mha;
using namespace mha::io;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

Output one_item() {
  Output output;
  output.items = {{"X", DType::f32, {2, 3}}};
  return output;
}

/// Exchanges a file descriptor of this process for another, until the end of the scope.
class Redirected {
public:
  Redirected(int fd, int with) : fd_(fd), saved_(::dup(fd)) { ::dup2(with, fd); }
  ~Redirected() {
    ::dup2(saved_, fd_);
    ::close(saved_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

private:
  int fd_, saved_;
};

} // namespace

TEST_CASE("files that cannot be read say why", "[io]") {
  const io::test::Folder folder;
  folder.file("layer.npz", "x");
  CHECK_THROWS_WITH(read_bytes(folder / "layr.npz"), (folder / "layr.npz") +
                                                         ": no such file; did you mean '" +
                                                         (folder / "layer.npz") + "'?");
  CHECK_THROWS_WITH(read_bytes(folder / "layer.npz/x"), Contains("no such file"));
  CHECK_THROWS_WITH(read_bytes(folder.path()), Contains("is a folder"));
  CHECK_THROWS_WITH(open(folder.file("X.npz", "")), Contains("the file is empty"));
}

TEST_CASE("standard input is read from a pipe and from a file", "[io]") {
  const io::test::Folder folder;
  const Tensor tensor = io::test::numbers(DType::f64, {100, 200}); // more than a pipe holds
  io::test::write(folder / "a.npz", "", {{"X", tensor}});
  SECTION("a file is mapped") {
    const int file = ::open((folder / "a.npz").c_str(), O_RDONLY);
    const Redirected input(0, file);
    CHECK(io::test::same(open("-").find("X")->read(), tensor));
    ::close(file);
  }
  SECTION("a pipe is read to its end") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    std::thread feeder([&] {
      const std::string bytes = io::test::contents_of(folder / "a.npz");
      for (std::size_t at = 0; at < bytes.size();)
        at += static_cast<std::size_t>(::write(ends[1], bytes.data() + at, bytes.size() - at));
      ::close(ends[1]);
    });
    {
      const Redirected input(0, ends[0]);
      const Contents contents = open("-");
      CHECK(contents.name == "standard input");
      CHECK(io::test::same(contents.find("X")->read(), tensor));
    }
    feeder.join();
    ::close(ends[0]);
  }
}

TEST_CASE("the first bytes tell the format where the name does not", "[io]") {
  const io::test::Folder folder;
  const std::vector<std::pair<std::string, Tensor>> tensors{
      {"X", io::test::numbers(DType::f32, {2, 3})}};
  for (const std::string format : {"npz", "npy", "safetensors", "json"}) {
    io::test::write(folder / "unnamed", format, tensors);
    CHECK(open(folder / "unnamed").format == format);
    CHECK(open(folder / "unnamed").tensors.size() == 1);
  }
  fs::rename(folder / "unnamed", folder / "wrong.npz");
  CHECK_THROWS_WITH(open(folder / "wrong.npz"), Contains("named .npz, but it is JSON"));
  CHECK_THROWS_WITH(format_named("npzz"), Contains("did you mean 'npz'?"));
}

TEST_CASE("a checkpoint folder is read with its shards and its config", "[io]") {
  const io::test::Folder folder;
  const Tensor tensor = io::test::numbers(DType::bf16, {2, 3});
  fs::create_directory(folder / "m");
  folder.file("m/config.json",
              R"({"num_attention_heads": 12, "rope_scaling": {"factor": 8.0}, "eps": 1e-5,
                  "architectures": ["A", "B"], "sliding_window": null, "tie": true,
                  "lists": [{"a": 1}]})");
  SECTION("one file") {
    io::test::write(folder / "m/model.safetensors", "", {{"a", tensor}, {"b", tensor}});
  }
  SECTION("one file of another name") {
    io::test::write(folder / "m/adapter.safetensors", "", {{"a", tensor}, {"b", tensor}});
  }
  SECTION("shards") {
    io::test::write(folder / "m/s1.safetensors", "", {{"a", tensor}});
    io::test::write(folder / "m/s2.safetensors", "", {{"b", tensor}, {"unlisted", tensor}});
    folder.file("m/model.safetensors.index.json",
                R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
  }
  const Contents contents = open(folder / "m");
  CHECK(contents.format == "checkpoint");
  // What no index names is read, too, as in Transformers.
  CHECK(contents.tensors.size() == (contents.find("unlisted") ? 3 : 2));
  CHECK(contents.notes.size() == (contents.find("unlisted") ? 1 : 0));
  CHECK(io::test::same(contents.find("b")->read(), tensor));
  CHECK(contents.config.at("num_attention_heads") == "12");
  CHECK(contents.config.at("rope_scaling.factor") == "8");
  CHECK(contents.config.at("eps") == "1e-05");
  CHECK(contents.config.at("architectures") == "A,B");
  CHECK(contents.config.at("tie") == "true");
  CHECK(contents.config.at("sliding_window") == "null"); // a family may say more of no key
}

TEST_CASE("a tensor in two shards is one where its numbers are the same", "[io]") {
  const Tensor tensor = io::test::numbers(DType::f32, {2, 3}), turned = tensor.reshaped({3, 2});
  Tensor other = Tensor::of<float>({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  for (const auto& [second, sound] : {std::pair(tensor, true),
                                      {other, false},
                                      {turned, false},
                                      {convert(tensor, DType::f64), false}}) {
    const io::test::Folder folder;
    io::test::write(folder / "s1.safetensors", "", {{"a", tensor}, {"b", tensor}});
    io::test::write(folder / "s2.safetensors", "", {{"b", second}, {"c", tensor}});
    folder.file("model.safetensors.index.json",
                R"({"weight_map": {"a": "s1.safetensors", "b": "s1.safetensors",
                    "c": "s2.safetensors"}})");
    if (sound)
      CHECK(open(folder.path()).tensors.size() == 3);
    else
      CHECK_THROWS_WITH(open(folder.path()),
                        Contains("s1.safetensors and s2.safetensors both hold 'b', with different "
                                 "numbers"));
  }
}

TEST_CASE("config.json: what is no plain value, or is there twice, is seen", "[io]") {
  const io::test::Folder folder;
  io::test::write(folder / "model.safetensors", "", {{"a", io::test::numbers(DType::f32, {2, 3})}});
  const auto read = [&](const std::string& text) -> std::string {
    folder.file("config.json", text);
    try {
      const auto config = open(folder.path()).config;
      const auto at = config.find("x");
      return at == config.end() ? "-" : at->second;
    } catch (const Error& error) {
      return error.what();
    }
  };
  struct Case {
    std::string json, text;
  };
  const Case cases[]{
      {R"({"x": 4})", "4"},
      {R"({"x": 4.0})", "4"},
      {R"({"x": 4.5})", "4.5"},
      {R"({"x": "4"})", R"("4")"},
      {R"({"x": "1e999"})", R"("1e999")"},
      {R"({"x": "true"})", R"("true")"},
      {R"({"x": "null"})", R"("null")"},
      {R"({"x": "a,b"})", R"("a,b")"},
      {R"({"x": "[4]"})", R"("[4]")"},
      {R"({"x": "gelu"})", "gelu"},
      {R"({"x": [4]})", "[4]"},
      {R"({"x": [[4]]})", "[[4]]"},
      {R"({"x": [4, 4]})", "4,4"},
      {R"({"x": []})", ""},
      {R"({"x": {}})", "{}"},
      {R"({"x": {"y": 4}})", "-"},
      {R"({"x": 4, "x": 4})", "4"},
      {R"({"y": {"x": 4}, "x": 5, "z": [{"x": 6}, {"x": 7}]})", "5"},
      {"\xef\xbb\xbf{\"x\": 4}", "4"},
  };
  for (const Case& one : cases) {
    INFO(one.json);
    CHECK(read(one.json) == one.text);
  }
  for (const char* twice :
       {R"({"x": 4, "x": 5})", R"({"x": 4, "x": "4"})", R"({"y": {"x": 4, "z": 1, "x": null}})",
        R"({"y": [{"x": 4, "x": [4]}]})", R"({"x": {"y": 1}, "x": {"y": 2}})"}) {
    INFO(twice);
    CHECK_THAT(read(twice), Contains("'x' appears twice in one object, with two values"));
  }
  for (const char* none : {"[]", R"([{"x": 4}])", "4", R"("x")", "null"}) {
    INFO(none);
    CHECK_THAT(read(none), Contains("config.json: an object expected"));
  }
  for (const std::string& text :
       {std::string(), std::string("{\"x\": 4}\0", 9), std::string("{}\0{", 4)})
    CHECK_THAT(read(text), Contains("config.json: line 1, column "));
}

TEST_CASE("an unfinished writer leaves nothing behind, and the old file untouched", "[io]") {
  const io::test::Folder folder;
  const Tensor tensor = io::test::numbers(DType::f32, {2, 3});
  for (const std::string name : {"a.npz", "a.npy", "a.safetensors", "a.json"}) {
    folder.file(name, "old");
    {
      const auto writer = create(folder / name, "", one_item());
      writer->write(0, 0, tensor.raw(), 3);
      CHECK(io::test::contents_of(folder / name) == "old");
      CHECK_THROWS_WITH(writer->finish(), Contains("not written once and whole"));
      writer->write(0, 3, tensor.raw(), 3);
    }
    CHECK(io::test::contents_of(folder / name) == "old");
    fs::remove(folder / name);
  }
  { create(folder / "new/deep/", "", one_item())->write(0, 0, tensor.raw(), 6); }
  CHECK(folder.size() == 0);
}

TEST_CASE("elements outside of an item, or twice, are refused", "[io]") {
  const io::test::Folder folder;
  const Tensor tensor = io::test::numbers(DType::f32, {2, 3});
  const auto writer = create(folder / "a.npz", "", one_item());
  CHECK_THROWS_AS(writer->write(0, 4, tensor.raw(), 3), Error);
  CHECK_THROWS_AS(writer->write(1, 0, tensor.raw(), 1), Error);
  writer->write(0, 0, tensor.raw(), 6);
  writer->write(0, 0, tensor.raw(), 6);
  CHECK_THROWS_AS(writer->finish(), Error);
  Output twice = one_item();
  twice.scalars = {{"X", "1"}};
  for (const std::string name : {"b.npz", "b.safetensors", "b.json", "b/"})
    CHECK_THROWS_WITH(create(folder / name, "", twice), Contains("would appear twice"));
}

TEST_CASE("a full disk and a folder that is not there are errors", "[io]") {
  CHECK_THROWS_WITH(write_whole("/dev/full", "text"),
                    "/dev/full: cannot write: No space left on device");
  CHECK_THROWS_WITH(
      io::test::write("/dev/full", "npz", {{"X", io::test::numbers(DType::f32, {2})}}),
      "/dev/full: cannot write: No space left on device");
  CHECK_THROWS_WITH(write_whole("/no/such/folder/x", "text"),
                    Contains("there is no folder /no/such/folder; make it first"));
  const io::test::Folder folder;
  CHECK_THROWS_WITH(write_whole(folder.path(), "text"), Contains("it is a folder"));
  if (::geteuid() != 0) {
    const std::string path = folder.file("locked", "old");
    ::chmod(path.c_str(), 0444);
    CHECK_THROWS_WITH(write_whole(path, "text"), Contains("Permission denied"));
  }
}

TEST_CASE("a written file keeps the old one's mode, and links stay links", "[io]") {
  const io::test::Folder folder;
  const std::string path = folder.file("a.txt", "old");
  ::chmod(path.c_str(), 0640);
  fs::create_symlink("a.txt", folder / "link");
  write_whole(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(io::test::contents_of(path) == "new");
  CHECK((fs::status(path).permissions() & fs::perms::all) == fs::perms(0640));
  CHECK(folder.size() == 2);
}

TEST_CASE("standard output gets everything at the end, and may be closed", "[io]") {
  const io::test::Folder folder;
  const Tensor tensor = io::test::numbers(DType::f32, {2, 3});
  const int file = ::open((folder / "out.npy").c_str(), O_RDWR | O_CREAT, 0600);
  {
    const Redirected output(1, file);
    io::test::write("-", "", {{"X", tensor}});
  }
  ::close(file);
  CHECK(io::test::same(open(folder / "out.npy").tensors.at(0).read(), tensor));

  ::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  {
    const Redirected output(1, ends[1]);
    CHECK_THROWS_AS(write_whole("-", "text"), ClosedPipe);
  }
  ::close(ends[1]);
  CHECK_THROWS_AS(create("-", "folder", one_item()), Error);
}

TEST_CASE("the path and the number of tensors choose the format", "[io]") {
  const io::test::Folder folder;
  const Tensor tensor = io::test::numbers(DType::f32, {2, 3});
  io::test::write(folder / "many", "npy", {{"a", tensor}, {"b", tensor}});
  CHECK(fs::is_directory(folder / "many"));
  io::test::write(folder / "one.npy", "", {{"a", tensor}});
  CHECK(fs::is_regular_file(folder / "one.npy"));
  CHECK_THROWS_WITH(create(folder / "x.zzz", "", one_item()),
                    Contains("'.zzz' is not the extension"));
  CHECK_THROWS_WITH(
      create("-", "", Output{{{"a", DType::f32, {1}}, {"b", DType::f32, {1}}}, {}, {}}),
      Contains("give format"));
  // More files than may be open at once.
  std::vector<std::pair<std::string, Tensor>> many;
  for (int i = 0; i < 2000; ++i) many.emplace_back(fmt::format("t{}", i), tensor);
  io::test::write(folder / "lots/", "", many);
  CHECK(open(folder / "lots").tensors.size() == 2000);
}
