// 20,000 damaged files of every format, opened, assembled and computed: none crashes, none takes
// two seconds, all together take no more memory than 64 MiB above what the whole file takes, and
// each that is refused gets one line. Not run by default: unit-tests '[.mutations]'.

#include "graph.hpp"
#include "load.hpp"
#include "observe/summary.hpp"
#include "support/files.hpp"
#include "unit/io/support.hpp"

#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <random>

using namespace mha;

namespace {

constexpr int mutants = 20'000;

std::string pattern(std::mt19937& random, std::size_t size) {
  static const std::vector<std::string> words{std::string("\0\0\0\0", 4),
                                              "\xff\xff\xff\xff",
                                              "\xff\xff\xff\x7f",
                                              std::string(1, '\0'),
                                              "\x80",
                                              "99999999999999999999",
                                              "18446744073709551616",
                                              "-1",
                                              "1e999",
                                              "[",
                                              "{",
                                              "\"",
                                              "]",
                                              "}",
                                              ",",
                                              "(",
                                              "'",
                                              "NaN",
                                              "\\u0000",
                                              "\\ud800",
                                              "\xc2",
                                              "float16",
                                              "F64",
                                              "<f8",
                                              "PK\x3\x4"};
  if (random() % 4 == 0) {
    std::string noise(1 + random() % 16, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    return noise;
  }
  return words[random() % words.size()].substr(0, size);
}

/// One to four damages: bits, bytes, pieces that are cut out, doubled, moved or overwritten, the
/// end.
std::string damaged(std::string bytes, std::mt19937& random) {
  for (auto left = random() % 2 == 0 ? 1 : 2 + random() % 3; left > 0 && !bytes.empty(); --left) {
    // Headers and directories lie at both ends: half of the damage is done there.
    const std::size_t near = std::min<std::size_t>(bytes.size(), 200);
    std::size_t at = random() % bytes.size();
    if (random() % 4 == 0) at = random() % near;
    if (random() % 4 == 0) at = bytes.size() - 1 - random() % near;
    const std::size_t length = 1 + random() % std::min<std::size_t>(64, bytes.size() - at);
    switch (random() % 8) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 1:
      bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes.erase(at, length);
      break;
    case 3:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 4:
      bytes.insert(random() % bytes.size(), bytes.substr(at, length));
      break;
    case 5:
      bytes.resize(at);
      break;
    case 6:
      bytes.insert(at, pattern(random, 64));
      break;
    default: {
      const std::string over = pattern(random, bytes.size() - at);
      bytes.replace(at, over.size(), over);
    }
    }
  }
  return bytes;
}

/// Everything that `show` computes for a file, at /proc/self/fd/FILE.
void show(int file) {
  Request request;
  request.sources = {"/proc/self/fd/" + std::to_string(file)};
  const Model model(std::move(request));
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = model.load(id);
    const StageSet available = available_stages(loaded.layer);
    Summaries summaries(loaded.layer, available);
    compute(loaded.layer, make_plan(loaded.layer, available), summaries, 1);
  }
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

} // namespace

TEST_CASE("20,000 damaged files of every format are read or refused in one line",
          "[io][.mutations]") {
  const io::test::Folder folder;
  // A layer with weights, settings and labels, in every format; as one array for .npy.
  std::map<std::string, std::string> files;
  files["json"] = io::test::contents_of(in_source("data/quickstart.json"));
  const io::Contents contents = io::open(in_source("data/quickstart.json"));
  io::Output output;
  for (const io::Entry& entry : contents.tensors)
    output.items.push_back({entry.name, entry.dtype, entry.shape});
  output.scalars = contents.scalars;
  output.labels = contents.labels;
  for (const std::string format : {"npz", "safetensors"}) {
    const auto writer = io::create(folder / "layer", format, output);
    for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
      const Tensor tensor = contents.tensors[i].read();
      writer->write(i, 0, tensor.raw(), tensor.count());
    }
    writer->finish();
    files[format] = io::test::contents_of(folder / "layer");
  }
  io::test::write(folder / "X", "npy", {{"X", io::test::numbers(DType::f32, {3, 4})}});
  files["npy"] = io::test::contents_of(folder / "X");

  const int file = memfd_create("mutant", 0);
  REQUIRE(file >= 0);
  const auto put = [&](const std::string& bytes) {
    REQUIRE(ftruncate(file, 0) == 0);
    REQUIRE(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  };
  for (const auto& [format, bytes] : files) {
    put(bytes);
    try {
      show(file);
    } catch (const Error& error) {
      CHECK(format == "npy"); // no num_heads in it
    }
    const double before = peak_mib();
    std::mt19937 random(7);
    int refused = 0;
    double slowest = 0;
    for (int i = 0; i < mutants; ++i) {
      const std::string mutant = damaged(bytes, random);
      if (mutant.empty()) continue;
      put(mutant);
      const auto start = std::chrono::steady_clock::now();
      try {
        show(file);
      } catch (const Error& error) {
        ++refused;
        const std::string message = error.what();
        if (message.empty() || message.find('\n') != std::string::npos) FAIL_CHECK(message);
      }
      slowest = std::max(
          slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("%-12s %d damaged files: %d refused, %d computed; slowest %.0f ms, %.1f MiB more\n",
                format.c_str(), mutants, refused, mutants - refused, slowest * 1e3,
                peak_mib() - before);
    CHECK(slowest < 2);
    CHECK(peak_mib() - before < 64);
  }
  ::close(file);
}
