#include "support/places.hpp"
#include "unit/formats/support.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <sstream>

using namespace mha;

namespace {

namespace fs = std::filesystem;

/// What opening and reading everything reports, with the file's own path as FILE.
std::string message_of(const std::string& name) {
  try {
    for (const io::Entry& entry : io::open(name).tensors) entry.read();
  } catch (const Error& error) {
    std::string message = error.line(Wording::command_line);
    for (std::size_t at = 0; (at = message.find(name, at)) != std::string::npos; at += 4)
      message.replace(at, name.size(), "FILE");
    return message;
  }
  return "";
}

/// Reads everything in these bytes, without a file.
void read_all(std::string_view format, const std::string& text) {
  const std::shared_ptr<std::byte[]> data(new std::byte[text.size()]); // no byte more: ASan watches
  std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), data.get());
  const io::Bytes bytes{"file", {data, data.get()}, text.size()};
  for (const io::Entry& entry : io::format_named(format).read(bytes).tensors) entry.read();
}

} // namespace

TEST_CASE("every broken file gets its message", "[io]") {
  const fs::path before = fs::current_path();
  fs::current_path(fs::path(mha::test::source_folder()) / "tests" / "broken");
  std::map<std::string, std::string> expected;
  std::istringstream lines(io::test::contents_of("messages.txt"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    expected[line.substr(0, tab)] = line.substr(tab + 1);
  }
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(".")) {
    const std::string name = entry.path().filename().string();
    if (name == "make.py" || name == "messages.txt") continue;
    if (name == "layers" || name == "layers.txt") continue;  // whole layers: cli/layers_test.cpp
    if (name == "models.txt" || name == "namings") continue; // cli/model_errors_test.cpp
    if (name.starts_with("tokenizers")) continue;            // tokenizers
    found.insert(name);
    INFO(name);
    CHECK(expected.contains(name));
    CHECK(message_of(name) == expected[name]);
  }
  CHECK(found.size() == expected.size());
  CHECK(found.size() >= 60);
  fs::current_path(before);
}

TEST_CASE("no GGUF file cut anywhere opens", "[io]") {
  const std::string whole = io::test::contents_of(
      (fs::path(mha::test::source_folder()) / "tests/data/fuzz/tiny.gguf").string());
  REQUIRE_NOTHROW(read_all("gguf", whole));
  for (std::size_t size = 0; size + 32 < whole.size(); ++size) { // but for what pads its end
    INFO("cut to " << size);
    REQUIRE_THROWS_AS(read_all("gguf", whole.substr(0, size)), Error);
  }
}

TEST_CASE("no ONNX model cut anywhere opens", "[io]") {
  const std::string whole = io::test::contents_of(
      (fs::path(mha::test::source_folder()) / "tests/data/fuzz/onnx-ms-grouped.onnx").string());
  REQUIRE_NOTHROW(read_all("onnx", whole));
  // Behind the graph only opsets follow, each a whole message.
  const std::size_t graph_end = whole.size() - 25;
  for (std::size_t size = 0; size < graph_end;
       size += size < 200 || size + 200 > graph_end ? 1 : 17) {
    INFO("cut to " << size);
    REQUIRE_THROWS_AS(read_all("onnx", whole.substr(0, size)), Error);
  }
}

TEST_CASE("no file cut anywhere crashes, and none that is cut opens whole", "[io]") {
  const io::test::Folder folder;
  const std::vector<std::pair<std::string, Tensor>> tensors = {
      {"X", io::test::numbers(DType::f32, {3, 5})}, {"W_q", io::test::numbers(DType::f16, {5, 4})}};
  io::Output extras;
  extras.scalars = {{"num_heads", "4"}};
  extras.labels = {{"tokens", {"the", "cat", "sat"}}};
  for (const std::string format : {"npz", "safetensors", "json"}) {
    io::test::write(folder / "whole", format, tensors, extras);
    const std::string whole = io::test::contents_of(folder / "whole");
    REQUIRE_NOTHROW(read_all(format, whole));
    // The newline at the end of JSON is the only byte that nobody would miss.
    for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
      INFO(format << " cut to " << size);
      REQUIRE_THROWS_AS(read_all(format, whole.substr(0, size)), Error);
    }
  }
}

TEST_CASE("a file with any byte changed is read or refused, never more", "[io]") {
  const io::test::Folder folder;
  for (const std::string format : {"npz", "safetensors", "json"}) {
    io::Output extras;
    extras.labels = {{"tokens", {"the", "cat", "sat"}}};
    io::test::write(folder / "whole", format, {{"X", io::test::numbers(DType::f32, {3, 5})}},
                    extras);
    const std::string whole = io::test::contents_of(folder / "whole");
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ change);
        try {
          read_all(format, changed);
        } catch (const Error&) {
        }
      }
  }
  SUCCEED();
}
