// NaN in what is given is reported by every command that computes with it, and is an error by
// --strict.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

/// A copy of a checkpoint with a NaN at one place of one float32 tensor.
void copy_with_nan(const std::string& from, const std::string& to, const std::string& tensor,
                   std::size_t place) {
  std::filesystem::copy(source_folder() + "/" + from, to, std::filesystem::copy_options::recursive);
  const std::string path = to + "/model.safetensors";
  std::stringstream read;
  read << std::ifstream(path, std::ios::binary).rdbuf();
  std::string bytes = read.str();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const json entry = json::parse(bytes.substr(8, length)).at(tensor);
  const std::string type = entry["dtype"];
  const std::string nan = type == "F32"   ? std::string("\x00\x00\xc0\x7f", 4)
                          : type == "F16" ? std::string("\x00\x7e", 2)
                                          : std::string("\xc0\x7f", 2);
  const std::size_t at = 8 + length + entry["data_offsets"][0].get<std::size_t>();
  bytes.replace(at + place * nan.size(), nan.size(), nan);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::ofstream(path, std::ios::binary) << bytes;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

} // namespace

TEST_CASE("nan: in a given stage it is said, and an error by --strict") {
  const Folder folder;
  const std::string nan = "\"NaN\"";
  const auto file = [&](const std::string& stage, const std::string& number) {
    return folder.write(stage + ".json", "{\"" + stage + "\": [[[1, 0], [" + number + ", 0.5]]]}");
  };
  for (const std::string stage : {"weights", "scores", "masked", "scaled", "exp"})
    for (const Words& command : {Words{"show"},
                                 {"show", "-s", "weights"},
                                 {"map"},
                                 {"stats"},
                                 {"explain"},
                                 {"dump", "-o", folder.path("o.npz")},
                                 {"report", "-o", folder.path("o.html")},
                                 {"convert", "-o", folder.path("c.json")},
                                 {"bench", "--repeat", "1"}}) {
      const Words line =
          with({command[0], file(stage, nan)}, Words(command.begin() + 1, command.end()));
      INFO(command[0] << " of " << stage);
      CHECK_THAT(run(line).err,
                 Contains(stage + " has 1 NaN of 4 numbers, the first at [0, 1, 0]"));
      const Result strict = run(with(line, {"--strict"}));
      CHECK(strict.code == 2);
      CHECK(one_line(strict.err));
    }
  // What a mask makes is none of it.
  CHECK(run({"show", file("masked", "\"-Infinity\""), "--strict"}).code == 0);
}

TEST_CASE("nan: in a weight of a model it is said by whoever shows what comes of it") {
  struct Case {
    std::string tensor;
    std::size_t place;
    std::vector<Words> commands;
  };
  const Words text{"--text", "To be, or not", "--strict"};
  const std::vector<Case> cases{{"transformer.h.1.attn.c_attn.bias",
                                 1,
                                 {{"explain", "--layer", "1"},
                                  {"explain", "--layer", "1", "--head", "0"},
                                  {"explain", "--layer", "2"},
                                  {"show", "--layer", "1"},
                                  {"show", "-s", "logits"},
                                  {"show", "-s", "resid_post", "--layer", "3"},
                                  {"stats", "--layer", "1"},
                                  {"predict"},
                                  {"predict", "--of", "layers.1.head_result"},
                                  {"predict", "--of", "layers.1.resid_post"},
                                  {"dump", "-o", "o.npz"}}},
                                {"transformer.ln_f.weight",
                                 1,
                                 {{"show"},
                                  {"show", "-s", "logits"},
                                  {"show", "-s", "final"},
                                  {"predict"},
                                  {"predict", "--of", "layers.1.head_result[1]"},
                                  {"dump", "-s", "logits", "-o", "o.npz"}}},
                                {"transformer.h.1.attn.c_proj.bias",
                                 2,
                                 {{"explain", "--layer", "1"}, {"show", "--layer", "1"}}}};
  for (const auto& [tensor, place, commands] : cases) {
    const Folder folder;
    copy_with_nan("data/bard-gpt2", folder.path("ck"), tensor, place);
    for (const Words& command : commands) {
      Words line = with({command[0], "ck"}, Words(command.begin() + 1, command.end()));
      const Result result = run(with(line, text), {.folder = folder.path()});
      INFO(tensor << ": " << command[0] << " " << command.back() << "\n" << result.err);
      CHECK(result.code == 2);
      CHECK_FALSE(result.err.empty());
      CHECK_FALSE(folder.has("o.npz"));
    }
  }
}

TEST_CASE("nan: explain names the head that it comes from, and no other") {
  const Folder folder;
  copy_with_nan("data/bard-gpt2", folder.path("ck"), "transformer.h.1.attn.c_attn.bias", 1);
  const Words line{"explain", "ck", "--text", "To be, or not", "--layer", "1"};
  const std::string told = run(line, {.folder = folder.path()}).out;
  CHECK_THAT(told, Contains("! head 0: nan or infinity comes in at q"));
  CHECK(told.find("heads 1") == std::string::npos);
  // Of what no head has, all are reported.
  const Folder other;
  copy_with_nan("data/bard-gpt2", other.path("ck"), "transformer.h.1.attn.c_proj.bias", 2);
  CHECK_THAT(run(line, {.folder = other.path()}).out, Contains("comes in at output"));
}

TEST_CASE("nan: a vector with one promotes no token") {
  const Folder folder;
  for (const char* number : {"\"NaN\"", "\"Infinity\""}) {
    std::string list = number;
    for (int i = 1; i < 96; ++i) list += ", 1";
    folder.write("v.json", "{\"v\": [" + list + "]}");
    const Result result =
        run({"predict", "data/bard-gpt2", "--text", "a", "--of", folder.path("v.json")});
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains("1 of the vector's 96 numbers are NaN or infinite"));
  }
}

TEST_CASE("nan: in what is made of several stages, layers or weights it is a warning") {
  const Folder folder;
  copy_with_nan("data/bard-gpt2", folder.path("ck"), "transformer.h.1.attn.c_attn.bias", 1);
  copy_with_nan("data/bard-gpt2", folder.path("end"), "transformer.ln_f.weight", 1);
  copy_with_nan("data/bard-gpt2", folder.path("W"), "transformer.h.2.attn.c_attn.weight", 7);
  struct Case {
    Words words;
    std::string said;
  };
  const Words text{"--text", "To be, or not"};
  std::vector<Case> cases{
      {{"circuits", "end"}, "no copying: the embedding, the last norm"},
      {{"map", "end", "-s", "ov", "--vocab", "a,b", "--layer", "2", "--head", "1"},
       "W_E OV W_U of head 1 has 4 NaN of 4 numbers, the first at [0, 0]: an earlier weight has "
       "some"},
      {{"map", "W", "-s", "qk", "--vocab", "a,b", "--layer", "2"},
       "W_E QK W_Eᵀ of head 0 has 4 NaN of 4 numbers"},
      {with({"map", "ck", "-s", "scores", "--layer", "1"}, text), "b_q has numbers that are NaN"},
      {with({"stats", "ck", "--layer", "1", "--head", "0", "--top-texts", "1"}, text),
       "head_result is NaN or infinite at "}};
  for (const std::string name :
       {"weights_mean", "value_norms", "value_norms_sum", "rollout", "received", "divergence"})
    for (const Words& command : {Words{"show"}, {"map"}, {"dump", "-o", "o.npy"}})
      cases.push_back({with(with({command[0], "ck", "-s", name, "--layer", "2"}, text),
                            Words(command.begin() + 1, command.end())),
                       name + (command[0] == "map" ? " has " : ": ")});
  for (const auto& [words, said] : cases) {
    const Result result = run(words, {.folder = folder.path()});
    INFO(words[0] << " " << words.back() << "\n" << result.err);
    CHECK_THAT(result.err, Contains("warning: ") && Contains(said));
    const Result strict = run(with(words, {"--strict"}), {.folder = folder.path()});
    CHECK(strict.code == 2);
    CHECK(one_line(strict.err));
    CHECK(strict.out.empty());
  }
  // A text that is sound stands alone; a head that is, too.
  CHECK(run(with({"show", "ck", "-s", "rollout", "--layer", "0", "--strict"}, text),
            {.folder = folder.path()})
            .code == 0);
  CHECK(run({"map", "W", "-s", "qk", "--vocab", "a,b", "--layer", "2", "--head", "1", "--strict"},
            {.folder = folder.path()})
            .code == 0);
}
