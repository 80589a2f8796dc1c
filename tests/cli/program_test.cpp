#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <regex>

using namespace mha::test;
using Catch::Contains;

namespace {
const std::vector<std::string> commands{"info", "stages", "show", "dump", "convert", "bench"};
}

TEST_CASE("prints help when nothing is asked") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"--help"}, {"-h"}, {"help"}}) {
    const Result result = run(arguments);
    CHECK(result.code == 0);
    CHECK(result.err.empty());
    CHECK_THAT(result.out, Contains("Usage") && Contains("Commands"));
    for (const std::string& command : commands) CHECK_THAT(result.out, Contains("  " + command));
  }
}

TEST_CASE("tells its version") {
  const Result result = run({"--version"});
  CHECK(result.code == 0);
  CHECK(std::regex_match(result.out, std::regex("mha-inspect \\d+\\.\\d+\\.\\d+\n")));
}

TEST_CASE("the help of every command ends with examples that work") {
  Folder folder;
  folder.write("layer.json", small_layer_json());
  REQUIRE(run({"convert", folder.path("layer.json"), "-o", folder.path("layer.npz")}).code == 0);
  std::filesystem::copy(mha::test::source_folder() + "/data", folder.path("data"),
                        std::filesystem::copy_options::recursive);
  for (const std::string& command : commands) {
    const Result help = run({command, "--help"});
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    CHECK(run({"help", command}).out == help.out);
    const std::size_t examples = help.out.find("\nExamples\n");
    REQUIRE(examples != std::string::npos);
    const std::regex line("\n  mha-inspect ([^\n]+)");
    const std::string text = help.out.substr(examples);
    int count = 0;
    for (std::sregex_iterator match(text.begin(), text.end(), line), end; match != end;
         ++match, ++count) {
      const Result result = shell("\"$MHA\" " + (*match)[1].str(), {{}, {}, folder.path()});
      INFO((*match)[1].str() << "\n" << result.err);
      CHECK(result.code == 0);
    }
    CHECK(count >= 2);
  }
}

TEST_CASE("help fits the width that it is given") {
  for (const std::string& command : commands) {
    const Result help = run({command, "--help"}, {{}, {{"COLUMNS", "80"}}, {}});
    const std::string options = help.out.substr(0, help.out.find("\nExamples\n"));
    const std::regex wide("\n[ -~]{90,}");
    CHECK_FALSE(std::regex_search(options, wide));
  }
}

TEST_CASE("fails for an unknown command") {
  const Result result = run({"shwo", "layer.npz"});
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK(one_line(result.err));
  CHECK_THAT(result.err,
             Contains("unknown command 'shwo'; did you mean 'show'?") && Contains("--help"));
}

TEST_CASE("a file in the place of the command gets the line that was meant") {
  const Result result = run({"layer.npz"});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("did you mean `mha-inspect show layer.npz`?"));
}

TEST_CASE("fails for an unknown option") {
  const std::pair<std::string, std::string> cases[] = {
      {"--stge", "--stage"},    {"--num_heads", "--num-heads"}, {"-layer", "--layer"},
      {"--casual", "--causal"}, {"--qurey=3", "--query"},       {"--no-casual", "--no-causal"}};
  for (const auto& [typed, meant] : cases) {
    const Result result = run({"show", "layer.npz", typed});
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err,
               Contains("did you mean '" + meant + "'?") && Contains("`mha-inspect show --help`"));
  }
}

TEST_CASE("fails for wrong values of options") {
  const std::tuple<std::vector<std::string>, std::string> cases[] = {
      {{"--num-heads", "four"}, "--num-heads is 'four': a number expected"},
      {{"--num-heads"}, "--num-heads needs a value"},
      {{"--stage", "--head"}, "--stage needs a value"},
      {{"--rope", "haf"}, "did you mean 'half'?"},
      {{"--head", "1;2"}, "'1;2' is not an index"},
      {{"--threads", "-3"}, "--threads is '-3': a whole number expected"},
      {{"--format", "cvs"}, "did you mean 'csv'?"},
      {{"--color", "yes"}, "auto, always, never"},
      {{"--dtype", "f16"}, "f32, f64"},
  };
  for (const auto& [options, message] : cases) {
    std::vector<std::string> arguments{"show", "layer.npz"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Result result = run(arguments);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(message));
  }
}

TEST_CASE("needs a source") {
  for (const std::string command : {"info", "show", "convert"}) {
    const Result result = run({command});
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(command + " needs a SOURCE"));
  }
}

TEST_CASE("options stand before or after sources, and lists never swallow a source") {
  Folder folder;
  const std::string layer = folder.write("layer.json", small_layer_json());
  const Result after =
      run({"show", layer, "--stage", "weights,masked", "--head", "0,1", "-f", "csv"});
  REQUIRE(after.code == 0);
  CHECK(run({"show", "-f", "csv", "--stage", "weights,masked", "--head", "0,1", layer}).out ==
        after.out);
  CHECK(run({"show", "-fcsv", "--stage=weights", "-s", "masked", layer, "-H", "0,1"}).out ==
        after.out);
  CHECK(run({"show", "-fcsv", "-s", "weights,masked", "--head=0", "--head=1", "--", layer}).out ==
        after.out);
}

TEST_CASE("a value may begin with a dash") {
  Folder folder;
  const std::string layer = folder.write("layer.json", small_layer_json());
  const Result result =
      run({"show", layer, "-s", "weights", "--query", "-1", "--window-left", "-1", "-f", "csv"});
  CHECK(result.code == 0);
  CHECK(result.out == run({"show", layer, "-s", "weights", "--query", "2", "-f", "csv"}).out);
}

TEST_CASE("of two contradicting options none wins") {
  Folder folder;
  const std::string layer = folder.write("layer.json", small_layer_json());
  const auto shown = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"show", layer, "-s", "weights", "-f", "csv"});
    return run(options);
  };
  CHECK(shown({"--causal"}).out == shown({}).out);
  CHECK(shown({}).out != shown({"--no-causal"}).out);
  for (const bool causal : {false, true}) {
    const Result both =
        shown({causal ? "--causal" : "--no-causal", causal ? "--no-causal" : "--causal"});
    CHECK(both.code == 2);
    CHECK(both.out.empty());
    CHECK_THAT(both.err, Contains("--causal and --no-causal contradict each other"));
  }
}

TEST_CASE("reads a layer from standard input") {
  const Result result =
      run({"show", "-", "-s", "output", "-f", "csv"}, {small_layer_json(), {}, {}});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("output"));
}

TEST_CASE("a closed pipe ends quietly") {
  const Result result =
      shell("\"$MHA\" show data/induction --layer 1 X=data/induction/hidden.npz:layers.1 -f csv "
            "-s scores,scaled,masked,shifted,exp,weights | head -1");
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  CHECK(one_line(result.out));
}

TEST_CASE("streams that are closed from the start are an error") {
  for (const char* rest : {"dump data/quickstart.json -s weights -o - >&-",
                           "show data/quickstart.json -s weights -f npy >&-",
                           "show data/quickstart.json >&-", "show - <&-"}) {
    INFO(rest);
    const Result result = shell(std::string("\"$MHA\" ") + rest);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("Bad file descriptor"));
  }
}

TEST_CASE("names out of files cannot drive the terminal from messages") {
  const Result result = run({"show", "\x1b[2Jnowhere\n.npz"});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
  CHECK(result.err.find('\x1b') == std::string::npos);
}

TEST_CASE("says which folder is missing, and makes nothing") {
  const Folder folder;
  const Result result = run({"dump", "data/quickstart.json", "-o", folder.path("no such/out.npz")});
  CHECK(result.code == 2);
  CHECK(result.err == "mha-inspect: " + folder.path("no such/out.npz") +
                          ": cannot write: there is no folder " + folder.path("no such") +
                          "; make it first\n");
  CHECK(folder.names().empty());
}

TEST_CASE("a full disk is an error") {
  const Result result = shell("\"$MHA\" stages > /dev/full");
  CHECK(result.code == 2);
  CHECK(result.err == "mha-inspect: standard output: cannot write: No space left on device\n");
}

TEST_CASE("colours are for terminals that want them") {
  CHECK(run({"stages"}).out.find('\x1b') == std::string::npos);
  CHECK(run({"stages", "--color", "always"}).out.find("\x1b[1m") != std::string::npos);
  const auto on_terminal = [](const std::map<std::string, std::string>& env) {
    return shell("script -qec '\"$MHA\" stages' /dev/null", {{}, env, {}}).out.find("\x1b[1m") !=
           std::string::npos;
  };
  CHECK(on_terminal({{"TERM", "xterm"}, {"NO_COLOR", ""}}));
  CHECK_FALSE(on_terminal({{"TERM", "xterm"}, {"NO_COLOR", "1"}}));
  CHECK_FALSE(on_terminal({{"TERM", "dumb"}, {"NO_COLOR", ""}}));
}

TEST_CASE("timings are one line of JSON on standard error") {
  Folder folder;
  const Result result =
      run({"show", folder.write("layer.json", small_layer_json()), "--timings", "--quiet"});
  CHECK(result.code == 0);
  CHECK(std::regex_match(
      result.err, std::regex("\\{\"read_s\": [\\d.]+, \"pack_s\": [\\d.]+, \"compute_s\": [\\d.]+, "
                             "\"write_s\": [\\d.]+, \"layers_made\": 1, \"layers_computed\": 1, "
                             "\"kept_bytes\": 0, \"memory\": 0\\}\n")));
}

TEST_CASE("--memory bounds the weights that are kept packed, and changes no number") {
  const std::vector<std::string> effects{"effects", "data/bard-gpt2", "--text", "To be", "-f",
                                         "csv",     "--timings"};
  const auto with = [&](const std::string& memory) {
    std::vector<std::string> arguments = effects;
    arguments.insert(arguments.end(), {"--memory", memory});
    return run(arguments);
  };
  const auto kept = [](const Result& result) {
    return nlohmann::json::parse(result.err).at("kept_bytes").get<double>();
  };
  const Result all = with("1G"), some = with("200K"), none = with("0");
  CHECK(kept(all) > kept(some));
  CHECK(kept(some) > 0);
  CHECK(kept(some) <= 200 * 1024);
  CHECK(kept(none) == 0);
  CHECK(nlohmann::json::parse(some.err).at("memory") == 200 * 1024);
  CHECK(all.out == some.out);
  CHECK(all.out == none.out);
  for (const std::string wrong : {"-1", "much", "2X", "1e30", "nan"}) {
    const Result result = with(wrong);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("--memory is '" + wrong + "': a number of bytes expected"));
  }
}

TEST_CASE("program: MHA_CPU says which instructions are used at most") {
  const Folder folder;
  // 96 tokens, 64 wide: enough for every set of instructions to take its own path.
  std::string X, W;
  for (int i = 0; i < 96 * 64; ++i)
    X += fmt::format("{}{}",
                     i == 0        ? "[["
                     : i % 64 == 0 ? "], ["
                                   : ", ",
                     (i * 37 % 101) / 50.0 - 1);
  for (int i = 0; i < 64 * 64; ++i)
    W += fmt::format("{}{}", i == 0 ? "[[" : i % 64 == 0 ? "], [" : ", ", (i * 53 % 97) / 300.0);
  const std::string layer =
      folder.write("layer.json", "{\"num_heads\": 1, \"X\": " + X + "]], \"W_v\": " + W + "]]}");
  const auto with = [&](const std::string& cpu, const std::string& name) {
    return run({"dump", layer, "-s", "output", "--dtype", "f32", "-o", folder.path(name), "-q"},
               {{}, {{"MHA_CPU", cpu}}});
  };
#if defined(__aarch64__)
  const std::vector<std::string> words{"portable", "neon"};
  const std::string expected = "portable or neon", elsewhere = "avx2";
#else
  const std::vector<std::string> words{"portable", "avx2", "avx512", "amx"};
  const std::string expected = "portable, avx2, avx512 or amx", elsewhere = "neon";
#endif
  for (const std::string& cpu : words) {
    CHECK(with(cpu, cpu + ".npy").code == 0);
    CHECK(run({"diff", layer, "--dtype", "f64", "--against", "output=" + folder.path(cpu + ".npy")})
              .code == 0);
  }
  if (words.size() > 2) CHECK(folder.read("avx2.npy") == folder.read("avx512.npy"));
  for (const std::string& wrong : {std::string("avx1024"), elsewhere}) {
    const Result refused = with(wrong, "none.npy");
    CHECK(refused.code == 2);
    CHECK(refused.err == "mha-inspect: MHA_CPU=" + wrong + ": expected " + expected + "\n");
  }
  CHECK_FALSE(folder.has("none.npy"));
}

TEST_CASE("a small stack is enough") {
  for (const char* words :
       {"info data/bard-llama", "stats data/bard-llama --text Hello", "stages",
        "predict data/bard-gpt2 --text Hello --threads 2", "show data/quickstart.json",
        "map data/bard-bert --text Hello --layer 0", "tokens data/bard-bert --text Hello"}) {
    const Result wide = shell(std::string("\"$MHA\" ") + words);
    const Result narrow = shell(std::string("ulimit -s 64; \"$MHA\" ") + words);
    INFO(words << "\n" << narrow.err);
    CHECK(narrow.code == 0);
    CHECK(narrow.out == wide.out);
  }
}
