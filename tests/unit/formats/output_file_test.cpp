#include <mha/files/output_file.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

TEST_CASE("a large file is whole, whoever writes its pieces and in which order") {
  // Large enough to be mapped (output_map.cpp) where the file system is one for that.
  const std::size_t size = (std::size_t{17} << 20) + 4321;
  std::mt19937 rng(5);
  std::string content(size, '\0');
  for (char& c : content) c = static_cast<char>(rng());
  // Pieces of all sizes, none at a page's edge.
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  for (std::size_t at = 0; at < size;) {
    const std::size_t n =
        std::min<std::size_t>(size - at, 1 + rng() % (rng() % 4 ? 3000 : 900'000));
    pieces.emplace_back(at, n);
    at += n;
  }
  std::ranges::shuffle(pieces, rng);

  std::vector<std::filesystem::path> folders{std::filesystem::temp_directory_path()};
  if (std::filesystem::exists("/dev/shm")) folders.emplace_back("/dev/shm");
  for (const std::filesystem::path& folder : folders) {
    CAPTURE(folder.string());
    const std::string path =
        (folder / ("mha-output-" + std::to_string(std::random_device{}()))).string();
    mha::io::OutputFile file(path);
    file.resize(size);
    {
      std::vector<std::jthread> writers;
      for (std::size_t w = 0; w < 3; ++w)
        writers.emplace_back([&, w] {
          for (std::size_t i = w; i < pieces.size(); i += 3)
            file.write(pieces[i].first, content.data() + pieces[i].first, pieces[i].second);
        });
    }
    file.commit();
    std::ifstream written(path, std::ios::binary);
    CHECK(std::string(std::istreambuf_iterator<char>(written), {}) == content);
    std::filesystem::remove(path);
  }
}
