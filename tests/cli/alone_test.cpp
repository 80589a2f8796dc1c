// What a file or a table shows of one text of a batch is what that text has alone: its numbers, its
// size, its labels, without the padding that longer texts make.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>

using namespace mha;
using namespace mha::test;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

const Words texts{"O Romeo", "To be, or not to be, that is the question", "my lord"};
const std::vector<std::string> models{"data/bard-gpt2", "data/bard-llama", "data/bard-bert"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words batch() {
  Words words;
  for (const std::string& text : texts) words.insert(words.end(), {"--text", text});
  return words;
}

std::string out_of(const Words& words) {
  const Result result = run(with(words, {"-q"}));
  INFO(words[0] << ": " << result.err);
  REQUIRE(result.code == 0);
  return result.out;
}

} // namespace

TEST_CASE("alone: a chosen text's numbers, labels and shapes are those of the text alone") {
  const std::vector<Words> views{
      {"show", "-s", "weights,masked,q,k,row_sum,output", "-f", "json"},
      {"show", "-s", "weights", "-f", "json", "--query", "-1"},
      {"show", "-s", "weights", "-f", "json", "--query", "1:", "--key", "-2:"},
      {"show", "-s", "weights,scores"},
      {"show", "-s", "rollout", "-f", "json"},
      {"show", "-s", "weights_mean", "-f", "json"},
      {"show", "-s", "received"},
      {"map", "--head", "0"},
      {"map", "-f", "svg"},
      {"explain", "-f", "json", "--query", "-1"}};
  for (const std::string& model : models)
    for (const Words& view : views)
      for (const std::size_t b : {std::size_t{0}, std::size_t{2}}) {
        Words words{view[0], model, "--layer", "1"};
        words.insert(words.end(), view.begin() + 1, view.end());
        std::string of_batch = out_of(with(with(words, batch()), {"--batch", std::to_string(b)}));
        INFO(model << " " << view[0] << " " << view.back() << " " << b);
        // Where the text is called one of several.
        for (const std::string& said :
             {fmt::format(" · batch {}", b), fmt::format("\"batch\": {}, ", b),
              fmt::format("batch {}\n", b)})
          for (std::size_t at = 0; (at = of_batch.find(said, at)) != std::string::npos;)
            of_batch.erase(at, said.size());
        std::string lone = out_of(with(words, {"--text", texts[b]}));
        if (view[0] == "explain") { // states which item it is
          json one = json::parse(of_batch), other = json::parse(lone);
          for (json* each : {&one, &other}) each->erase("batch"), each->erase("shape");
          of_batch = one.dump(), lone = other.dump();
        }
        CHECK(of_batch == lone);
      }
}

TEST_CASE("alone: files of one text each are those of the texts alone") {
  for (const std::string& model : models) {
    const Folder folder;
    out_of(with({"dump", model, "-o", folder.path("all{batch}.npz")}, batch()));
    for (std::size_t b = 0; b < texts.size(); ++b) {
      const std::string own = folder.path(fmt::format("own{}.npz", b)),
                        all = folder.path(fmt::format("all{}.npz", b));
      out_of({"dump", model, "--text", texts[b], "-o", own});
      const io::Contents one = io::open(own), of_batch = io::open(all);
      INFO(model << " text " << b);
      CHECK(one.labels == of_batch.labels);
      REQUIRE(one.tensors.size() == of_batch.tensors.size());
      for (const io::Entry& entry : one.tensors) {
        INFO(entry.name);
        const Tensor mine = tensor_in(of_batch, entry.name), want = entry.read();
        REQUIRE(mine.shape() == want.shape());
        CHECK(std::memcmp(mine.raw(), want.raw(), want.bytes()) == 0);
      }
      CHECK(std::filesystem::file_size(own) == std::filesystem::file_size(all));
    }
  }
}

TEST_CASE("alone: several chosen texts are as long as the longest of them, and say their lengths") {
  const Folder folder;
  const std::string path = folder.path("d.npz");
  out_of(with(
      {"dump", "data/bard-gpt2", "-s", "weights", "--layer", "1", "--batch", "0,2", "-o", path},
      batch()));
  const io::Contents file = io::open(path);
  const Tensor lengths = tensor_in(file, "lengths");
  REQUIRE(lengths.shape() == Shape{2});
  const auto longest =
      static_cast<std::size_t>(std::max(value_at(lengths, 0), value_at(lengths, 1)));
  CHECK(tensor_in(file, "weights").shape()[2] == longest);
  CHECK(tensor_in(file, "ids").shape() == Shape{2, longest});
}

TEST_CASE("alone: a layer that is converted with a text holds its token numbers") {
  const Folder folder;
  const std::string path = folder.path("x.npz");
  out_of({"convert", "data/bard-gpt2", "--text", texts[0], "--layer", "1", "-o", path});
  const Tensor ids = tensor_in(io::open(path), "ids");
  const json said =
      json::parse(out_of({"tokens", "data/bard-gpt2", "--text", texts[0], "-f", "json"}));
  REQUIRE(ids.count() == said["ids"].size());
  for (std::size_t t = 0; t < ids.count(); ++t)
    CHECK(value_at(ids, t) == said["ids"][t].get<double>());
  CHECK(run({"show", path, "-s", "weights"}).code == 0); // they are no tensor of the layer
}
