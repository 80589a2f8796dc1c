// Every option of every command changes what comes out, or what is reported: nothing is passed over
// in silence.

#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <optional>
#include <set>
#include <sstream>

using namespace mha::test;
using Catch::Contains;

namespace {

using Words = std::vector<std::string>;

struct Option {
  std::string name;
  bool takes_value = false;
};

/// The options of a command, from the lines "  -s, --stage NAME…" of its help.
std::vector<Option> options_of(const std::string& command) {
  std::vector<Option> list;
  std::istringstream help(run({command, "--help", "all"}, {.env = {{"COLUMNS", "300"}}}).out);
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("      --") && !line.starts_with("  -")) continue;
    const std::size_t at = line.find("--"), end = line.find_first_of(" ,", at);
    // One blank, and then a value; two, and then the help. After a comma, the flag's opposite.
    list.push_back({line.substr(at, end - at),
                    end + 1 < line.size() && line[end] == ' ' && line[end + 1] != ' '});
  }
  return list;
}

/// Everything that a run leaves.
struct Left {
  int code = 0;
  std::string out, err;
  std::map<std::string, std::string> files;
  bool operator==(const Left&) const = default;
};

std::string without(std::string text, const std::string& folder) {
  for (std::size_t at; (at = text.find(folder)) != std::string::npos;)
    text.erase(at, folder.size());
  return text;
}

/// A run whose files, "OUT…", are in a folder of their own.
Left left_by(Words words) {
  const Folder folder;
  for (std::string& word : words)
    if (const std::size_t at = word.find("OUT"); at != std::string::npos)
      word.replace(at, 3, folder.path("o"));
  const Result result = run(words, {.env = {{"COLUMNS", "200"}}});
  Left left{
      result.code, without(result.out, folder.path()), without(result.err, folder.path()), {}};
  for (const std::string& name : folder.names()) left.files[name] = folder.read(name);
  return left;
}

const Words text{"data/bard-gpt2", "--text", "To be, or not to be", "--layer", "1"},
    model{"data/bard-gpt2", "--text", "To be, or not to be"}, lone{"data/quickstart.json"};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A command line for each command, to which options are added.
const std::vector<std::pair<std::string, Words>> lines{
    {"show", text + Words{"-s", "weights"}},
    {"show", lone},
    {"map", text},
    {"map", lone + Words{"-o", "OUT.svg"}},
    {"map", {"data/bard-gpt2", "--layer", "1", "-s", "qk", "--vocab", "king,queen"}},
    {"explain", text + Words{"--query", "3"}},
    {"report", text + Words{"-o", "OUT.html"}},
    {"stats", text},
    {"stats", text + Words{"-f", "csv"}},
    {"stats", text + Words{"--spread"}},
    {"stats", text + Words{"--by", "position"}},
    {"stats", text + Words{"--head", "0", "--top-texts", "2", "-f", "csv"}},
    {"stats", text + Words{"--grid", "induction"}},
    {"show", {"data/qkv.json"}},
    {"explain", text + Words{"--query", "3", "-f", "json"}},
    {"dump", text + Words{"-s", "weights,residual", "-o", "OUT.npz"}},
    {"convert", {"data/bard-gpt2", "--layer", "1", "-o", "OUT.npz"}},
    {"info", {"data/bard-gpt2"}},
    {"info", lone},
    {"tokens", {"data/bard-llama", "--text", "To be"}},
    {"predict", model + Words{"--top", "3"}},
    {"effects", model},
    {"circuits", {"data/bard-gpt2"}},
    {"circuits", {"data/induction", "--layer", "1"}},
    {"diff",
     {"data/shakespeare", "--layer", "0", "X=data/shakespeare/hidden.npz:layers.0", "--against",
      "output=data/port/stages.safetensors:attn.out"}},
    {"diff", {"data/bard-gpt2", "data/bard-bert", "--weights"}},
    {"stages", {}},
    {"names", {}},
};

/// A value of each option that no line above has.
const std::map<std::string, std::string> values{
    {"--layer", "0"},
    {"--prefix", "transformer.h.0.attn."},
    {"--naming", "llama"},
    {"--config", "data/bard-llama/config.json"},
    {"--tokens", "a b c d e f g"},
    {"--key-tokens", "a b c d e f g"},
    {"--text", "O Romeo, Romeo, Romeo"},
    {"--text-file", "data/bard-gpt2/config.json"},
    {"--ids", "5,6,7"},
    {"--inputs-embeds", "data/shakespeare/hidden.npz:layers.0"},
    {"--patch", "layers.0.weights=zero"},
    {"--num-heads", "4"},
    {"--num-kv-heads", "1"},
    {"--scale", "0.3"},
    {"--softcap", "0.5"},
    {"--causal-align", "bottom_right"},
    {"--window-left", "1"},
    {"--window-right", "0"},
    {"--clip-qkv", "0.1"},
    {"--alibi", "mpt"},
    {"--softmax", "naive"},
    {"--rope", "half"},
    {"--rope-base", "100"},
    {"--qk-norm", "l2"},
    {"--input-norm", "rms"},
    {"--batch", "1"},
    {"--head", "0"},
    {"--query", "1"},
    {"--key", "0"},
    {"--format", "json"},
    {"--output", "OUT.second.json"},
    {"--stage", "q"},
    {"--precision", "2"},
    {"--top", "1"},
    {"--part", "1/2"},
    {"--width", "300"},
    {"--zoom", "2"},
    {"--title", "abc"},
    {"--vmin", "0.1"},
    {"--vmax", "0.3"},
    {"--color-scale", "log"},
    {"--cells", "2"},
    {"--minus", "data/bard-llama"},
    {"--minus-layer", "2"},
    {"--minus-head", "1"},
    {"--minus-batch", "0"},
    {"--minus-text", "O Romeo, be not to be"},
    {"--minus-ids", "1,2,3,4,5,6,7"},
    {"--minus-patch", "none"},
    {"--vocab", "king"},
    {"--distance", "1"},
    {"--separators", "be"},
    {"--kind", "mixed"},
    {"--sort", "entropy"},
    {"--measures", "entropy"},
    {"--by", "position"},
    {"--top-texts", "2"},
    {"--grid", "entropy"},
    {"--of", "layers.1.output"},
    {"--ablate", "mean"},
    {"--align", "end"},
    {"--together", "layers.1.mlp_out"},
    {"--answer", " the"},
    {"--answer-id", "5"},
    {"--answer-file", "data/bard-gpt2/config.json"},
    {"--versus", " my"},
    {"--versus-id", "7"},
    {"--versus-file", "data/bard-gpt2/config.json"},
    {"--sweep", "output"},
    {"--patch-from", "To be, or not to me"},
    {"--patch-from-ids", "1,2"},
    {"--patch-from-file", "data/bard-gpt2/config.json"},
    {"--over", "layer"},
    {"--metric", "loss"},
    {"--composition", "k"},
    {"--against", "weights=data/port/stages.safetensors:attn.weights"},
    {"--qkv-order", "kqv"},
    {"--near", "1"},
    {"--atol", "10"},
    {"--rtol", "0.5"},
};

/// What decides how it is computed, how much is reported, or what is done where something comes up:
/// in a line without it nothing need change. A config and a precision may say what is so already.
const std::set<std::string> about_the_run{
    "--help",       "--quiet",    "--strict",     "--threads",     "--color",   "--memory",
    "--timings",    "--resume",   "--no-special", "--max-size",    "--bos",     "--pool",
    "--all-stages", "--colormap", "--config",     "--masked-rows", "--weights", "--dtype"};

/// What is so already in a line, or is a step after what the line shows.
const std::set<std::pair<std::string, std::string>> raw{
    {"map", "--residual"},      {"map", "--softmax"}, {"map", "--qkv-order"},
    {"convert", "--causal"},    {"diff", "--layer"},  {"stats", "--measures"},
    {"stats", "--residual"},    {"stats", "--near"},  {"circuits", "--naming"},
    {"circuits", "--num-heads"}};

/// Whether a line has an option, with this value: once more it means the same.
bool is_given(const Words& line, Words more) {
  const Words as_typed = more;
  if (more[0] == "--format") more[0] = "-f";
  if (more[0] == "--stage") more[0] = "-s";
  const auto holds = [&line](const auto& words) {
    return std::search(line.begin(), line.end(), words.begin(), words.end()) != line.end();
  };
  return holds(as_typed) || holds(more);
}

/// The words of an option for a line; nothing where no value is known.
std::optional<Words> words_of(const Option& option) {
  if (!option.takes_value) return Words{option.name};
  const auto value = values.find(option.name);
  if (value == values.end()) return std::nullopt;
  return Words{option.name, value->second};
}

} // namespace

TEST_CASE("unused: every option of every command changes something, or something is said of it") {
  if (sanitized) return; // a thousand runs
  std::size_t tried = 0;
  std::map<std::string, std::vector<Option>> options;
  for (const auto& [command, line] : lines) {
    const Words whole = Words{command} + line;
    const Left plain = left_by(whole);
    if (!options.contains(command)) options[command] = options_of(command);
    CHECK(options[command].size() > 3);
    for (const Option& option : options[command]) {
      const std::optional<Words> more = words_of(option);
      if (!more || is_given(line, *more) || about_the_run.contains(option.name) ||
          raw.contains({command, option.name}))
        continue;
      const Left with = left_by(whole + *more);
      std::string typed;
      for (const std::string& word : whole + *more) typed += word + " ";
      INFO(typed);
      CHECK_FALSE(with == plain);
      ++tried;
    }
  }
  CHECK(tried > 500);
}

TEST_CASE("unused: options that a command cannot use are refused, or noted, by their names") {
  struct Case {
    Words words;
    std::string said;
    int code = 2;
  };
  const std::vector<Case> cases{
      {{"stages", "--causal"}, "--causal: applies to a layer, but none is given"},
      {{"stages", "--text", "O"}, "--text: applies to a layer"},
      {{"circuits", "data/induction-model", "--scale", "2"}, "--scale: has no effect on weights"},
      {{"circuits", "data/induction-model", "--tokens", "a b"}, "--tokens: has no effect"},
      {{"circuits", "data/induction-model", "--composition", "k", "--above-random"},
       "--above-random: applies to pictures"},
      {{"map", "data/bard-gpt2", "-s", "ov", "--vocab", "king", "--causal"},
       "--causal: has no effect on weights"},
      {{"diff", "data/bard-gpt2", "data/bard-gpt2", "--weights", "--atol", "1"},
       "--atol: has no effect with --weights"},
      {{"stats", "data/quickstart.json", "--precision", "3"}, "--precision: applies to CSV"},
      {{"info", "data/bard-gpt2", "--text", "To be", "--causal"},
       "note: --text, --causal: no effect on the list, because no single layer is listed",
       0},
      {{"stats", "data/bard-gpt2", "--text", "O Romeo", "--spread", "--batch", "0"},
       "--batch: the rows cover all texts"},
      {{"stats", "data/bard-gpt2", "--text", "O Romeo", "--by", "token", "--near", "1"},
       "--near: applies to the measure window, which is not shown"},
      {{"stats", "data/bard-gpt2", "--text", "O Romeo", "--grid", "first", "--separators", "a"},
       "--separators: applies to the measure separator, which is not shown"},
      {{"stats", "data/bard-gpt2", "--text", "O Romeo", "--grid", "first", "--measures", "all"},
       "--measures all has no effect on --grid, which shows one measure"},
      {{"stats", "data/bard-gpt2", "--text", "O Romeo", "--spread", "--separators", "zzz"},
       "no token is 'zzz'",
       0},
      {{"explain", "data/quickstart.json", "-f", "json", "--precision", "2"},
       "--precision: applies to the text"},
      {{"explain", "data/quickstart.json", "-f", "json", "--top", "2"},
       "--top: applies to the text"},
      {{"show", "data/quickstart.json", "--tokens", "a b c"},
       "note: --tokens: the overview shows no token labels; use -s STAGE to see them",
       0},
      {{"show", "data/quickstart.json", "--qkv-order", "kqv"},
       "warning: --qkv-order changes nothing: there is no W_qkv",
       0},
      {{"show", "data/quickstart.json", "--config", "data/bard-llama/config.json"},
       "warning: --config has no effect: no tensors have the names of a model",
       0},
      {{"explain", "data/qkv.json", "--input-norm", "rms"},
       "warning: --input-norm changes nothing: the computation starts at q, k and v",
       0},
      {{"explain", "data/qkv.json", "--clip-qkv", "1"},
       "warning: --clip-qkv changes nothing: the computation starts at q, k and v",
       0},
      {{"show", "data/qkv.json", "--residual"},
       "warning: --residual changes nothing: there is no X to add",
       0},
      {{"convert", "data/quickstart.json", "--dtype", "f32", "-f", "json", "-o", "-"},
       "--dtype: has no effect without a computation"},
      {{"convert", "data/bard-gpt2", "--same-x", "-f", "npz", "-o", "/dev/null"},
       "warning: --same-x has no effect: all tensors of data/bard-gpt2 are written unchanged",
       0},
      {{"diff", "data/bard-gpt2", "data/bard-gpt2", "--weights", "--gguf-order"},
       "warning: --gguf-order has no effect: none of the files is GGUF",
       0},
      {{"info", "data/quickstart.json", "--tokens", "a b c"},
       "note: --tokens: no effect on the list",
       0},
      {{"info", "data/bard-gpt2", "--gguf-order"}, "", 0},
      {{"circuits", "data/bard-gpt2", "--gguf-order"}, "--gguf-order has no effect", 0},
      {{"stages", "data/quickstart.json", "--gguf-order"}, "--gguf-order has no effect", 0},
      {{"show", "data/quickstart.json", "--same-x"},
       "warning: --same-x has no effect: one layer is chosen",
       0},
      {{"circuits", "data/induction", "--same-x"},
       "--same-x has no effect: no tensor is shared by several layers",
       0},
      {{"stats", "data/induction", "--layer", "all", "X=data/induction/hidden.npz:layers.{layer}",
        "--same-x"},
       "--same-x has no effect: no tensor is shared by several layers",
       0},
  };
  for (const auto& [words, said, code] : cases) {
    const Result result = run(words);
    std::string line;
    for (const std::string& word : words) line += word + " ";
    INFO(line << "\n" << result.err);
    CHECK(result.code == code);
    CHECK_THAT(result.err, Contains(said));
  }
  CHECK_THAT(run({"info", "data/bard-gpt2", "--gguf-order"}).out,
             Contains("--gguf-order has no effect"));
  // Of one layer a text decides which stages there are.
  const Result one = run({"info", "data/bard-gpt2", "--layer", "1", "--text", "To be"});
  CHECK(one.err.empty());
  CHECK_THAT(one.out, Contains("resid_post"));
  CHECK_THAT(run({"diff", "data/bard-gpt2", "data/bard-gpt2", "--weights", "--timings"}).err,
             Contains("read_s"));
}

TEST_CASE("unused: a measure that is named twice is one column") {
  const Result once = run(
                   {"stats", "data/quickstart.json", "--measures", "entropy,max", "-f", "json"}),
               twice = run({"stats", "data/quickstart.json", "--measures", "entropy,max,entropy",
                            "--measures", "max", "-f", "json"});
  CHECK(once.code == 0);
  CHECK(twice.out == once.out);
  CHECK_THAT(run({"effects", "data/bard-gpt2", "--text", "To be", "--patch-from", "To me",
                  "--sweep", "output,output"})
                 .err,
             Contains("--sweep: output is given twice"));
}
