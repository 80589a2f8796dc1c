#include "support/damage.hpp"

#include <mha/files/text.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/summary.hpp>
#include <mha/render/text.hpp>

#include <catch2/catch.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>

using namespace mha;

namespace {

std::string pattern(std::mt19937& random, std::size_t size) {
  static const std::vector<std::string> words{std::string("\0\0\0\0", 4),
                                              "\xff\xff\xff\xff",
                                              "\xff\xff\xff\x7f",
                                              std::string(1, '\0'),
                                              "\x80",
                                              "99999999999999999999",
                                              "18446744073709551616",
                                              "4611686018427387904",
                                              "-1",
                                              "0",
                                              "1e999",
                                              "[",
                                              "{",
                                              "\"",
                                              "]",
                                              "}",
                                              ",",
                                              ":",
                                              "(",
                                              "'",
                                              "NaN",
                                              "null",
                                              "\\u0000",
                                              "\\ud800",
                                              "\xc2",
                                              "\x1b[2J",
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

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The most memory that this process had since reset_peak(), or ever where the system cannot tell.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << '5'; // proc(5): VmHWM becomes what is held now
}

} // namespace

std::string damaged(std::string bytes, std::mt19937& random) {
  for (auto left = random() % 2 == 0 ? 1 : 2 + random() % 3; left > 0 && !bytes.empty(); --left) {
    // Headers and directories are at both ends: half of the damage is done there.
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

void compute_every_layer(Request request) {
  const Sources model(std::move(request));
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = model.load(id);
    for (const std::string& note : loaded.notes) require_line(note);
    const StageSet available = available_stages(loaded.layer);
    Summaries summaries(loaded.layer, available);
    compute(loaded.layer, make_plan(loaded.layer, available), summaries, 1);
  }
}

void require_line(const std::string& text) {
  const std::string printed = render::visible(text); // as the program prints it
  const bool plain = std::ranges::none_of(
      printed, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (text.empty() || printed.size() >= 4000 || !plain ||
      io::invalid_utf8(printed) != std::string::npos)
    FAIL_CHECK("no message of one line: '" << text << "'");
}

void require_endured(const std::string& name, Endurance endurance,
                     const std::function<void(std::mt19937*)>& use) {
  reset_peak();
  try {
    use(nullptr);
  } catch (const Error& error) {
    require_line(error.what()); // an array alone is no layer
  }
  const double before = peak_mib();
  reset_peak();
  std::mt19937 random(7);
  int refused = 0;
  double slowest = 0;
  for (int i = 0; i < endurance.mutants; ++i) {
    const double start = processor_seconds();
    try {
      use(&random);
    } catch (const Error& error) {
      ++refused;
      const std::string message = error.what();
      require_line(message);
      if (message.find('\n') != std::string::npos) FAIL_CHECK("two lines: '" << message << "'");
    } catch (const std::exception& error) {
      FAIL_CHECK(name << ", number " << i << ": no message but " << error.what());
    }
    slowest = std::max(slowest, processor_seconds() - start);
  }
  const double more = peak_mib() - before;
  if (!endurance.measured) return;
  std::printf("%-24s %d damaged: %d refused, %d computed; slowest %.0f ms, %.1f MiB more\n",
              name.c_str(), endurance.mutants, refused, endurance.mutants - refused, slowest * 1e3,
              more);
  CHECK(slowest < 2);
  CHECK(more < 64);
}
