// Completion, asked of the shells themselves.

#include "support/places.hpp"
#include "support/tools.hpp"

#include <algorithm>
#include <sstream>

using namespace mha::test;
using Catch::Contains;

namespace {

/// A folder with data/, which has the scripts of all shells.
struct Shells : Folder {
  Shells() {
    std::filesystem::create_directory_symlink(source_folder() + "/data", path("data"));
    write("has space.json", "{}");
    for (const std::string name : {"bash", "zsh", "fish"}) {
      const Result result = run({"completion", name});
      REQUIRE(result.code == 0);
      write(name == "zsh" ? "_mha-inspect" : "script." + name, result.out);
    }
  }

  /// What bash offers: the words before the cursor as readline splits them, and the one it is in.
  std::vector<std::string> bash(const std::vector<std::string>& words) const {
    std::string line = "source ./script.bash; COMP_WORDS=(";
    for (const std::string& word : words) line += "'" + word + "' ";
    line += "); COMP_CWORD=" + std::to_string(words.size() - 1) +
            "; _mha_inspect; printf '%s\\n' \"${COMPREPLY[@]}\"";
    return lines(shell(line, {.folder = path()}).out);
  }
  /// What fish offers for a line, without the explanations.
  std::vector<std::string> fish(const std::string& line) const {
    const Result result =
        shell("fish --no-config -c 'source script.fish; complete -C \"" + line + "\"' | cut -f1",
              {.folder = path()});
    return lines(result.out);
  }

  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> list;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      if (!line.empty()) list.push_back(line);
    std::sort(list.begin(), list.end());
    return list;
  }
};

using Words = std::vector<std::string>;

/// A line, and what it may become.
const std::pair<Words, Words> cases[] = {
    {{"mha-inspect", "expl"}, {"explain"}},
    {{"mha-inspect", "help", "du"}, {"dump"}},
    {{"mha-inspect", "completion", "z"}, {"zsh"}},
    {{"mha-inspect", "show", "--str"}, {"--strict"}},
    {{"mha-inspect", "stats", "--kind", "induc"}, {"induction"}},
    {{"mha-inspect", "stats", "--sort", "stiefel_q"}, {"stiefel_q"}},
    {{"mha-inspect", "stats", "--measures", "entropy,largest"}, {"entropy,largest_logit"}},
    {{"mha-inspect", "show", "--no-zero"}, {"--no-zero-attn"}},
    {{"mha-inspect", "show", "--rope", ""}, {"half", "interleaved", "none"}},
    {{"mha-inspect", "show", "-s", "row"}, {"row_max", "row_sum"}},
    {{"mha-inspect", "show", "--stage", "q,row"}, {"q,row_max", "q,row_sum"}},
    {{"mha-inspect", "show", "--quiet", "data/quick"}, {"data/quickstart.json"}},
    {{"mha-inspect", "show", "--config", "data/induction/conf"}, {"data/induction/config.json"}},
};

std::string joined(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

} // namespace

TEST_CASE("completion: every script is valid for its shell") {
  const Shells shells;
  const std::pair<std::string, std::string> files[] = {
      {"bash", "script.bash"}, {"zsh", "_mha-inspect"}, {"fish", "script.fish"}};
  for (const auto& [name, file] : files) {
    if (!have_tool(name)) continue;
    const Result result = shell(name + " -n " + file, {.folder = shells.path()});
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK(result.err.empty());
  }
}

TEST_CASE("completion: bash offers commands, options, choices, stages and files") {
  const Shells shells;
  for (const auto& [words, offered] : cases) {
    INFO(joined(words));
    CHECK(shells.bash(words) == offered);
  }
  // After "=", which readline makes a word of its own, or does not.
  CHECK(shells.bash({"mha-inspect", "show", "--rope", "=", "in"}) == Words{"interleaved"});
  CHECK(shells.bash({"mha-inspect", "show", "--rope", "="}) ==
        Words{"half", "interleaved", "none"});
  CHECK(shells.bash({"mha-inspect", "show", "--rope=in"}) == Words{"--rope=interleaved"});
  CHECK(shells.bash({"mha-inspect", "show", "X", "=", "data/quick"}) ==
        Words{"data/quickstart.json"});
  CHECK(shells.bash({"mha-inspect", "show", "X=data/quick"}) == Words{"X=data/quickstart.json"});
  CHECK(shells.bash({"mha-inspect", "show", "has"}) == Words{"has space.json"});
  CHECK(shells.bash({"mha-inspect", "show", "--num-heads", ""}).empty());
}

TEST_CASE("completion: bash knows every option of every command that help names") {
  const Shells shells;
  for (const std::string& command : shells.bash({"mha-inspect", ""})) {
    if (command.starts_with("-") || command == "help") continue;
    const Words offered = shells.bash({"mha-inspect", command, "-"});
    std::istringstream help(run({"help", command}).out);
    for (std::string line; std::getline(help, line);) {
      const std::size_t at = line.find("--");
      if (!line.starts_with("  ") || at == std::string::npos || at > 6) continue;
      const std::string option = line.substr(at, line.find_first_of(" ,", at) - at);
      INFO(command << " " << option);
      CHECK(std::find(offered.begin(), offered.end(), option) != offered.end());
    }
  }
}

TEST_CASE("completion: fish offers the same") {
  if (!have_tool("fish")) return;
  const Shells shells;
  for (const auto& [words, offered] : cases) {
    INFO(joined(words));
    CHECK(shells.fish(joined(words)) == offered);
  }
  CHECK(shells.fish("mha-inspect show --rope=in") == Words{"--rope=interleaved"});
  CHECK(shells.fish("mha-inspect show X=data/quick") == Words{"X=data/quickstart.json"});
}

TEST_CASE("completion: zsh offers the same, with a finger on its tab key") {
  if (!have_tool("zsh")) return;
  const Shells shells;
  shells.write("rc", "PROMPT=\nunsetopt zle_bracketed_paste prompt_cr prompt_sp 2>/dev/null\n"
                     "fpath=($PWD $fpath)\nautoload -Uz compinit; compinit -u -D\n"
                     "mha-inspect() { print -r -- \"GOT:$*\" }\n");
  const std::pair<std::string, std::string> typed[] = {
      {"expl\t", "explain"},
      {"help du\t", "help dump"},
      {"completion z\t", "completion zsh"},
      {"show --str\t", "show --strict"},
      {"show --no-zero\t", "show --no-zero-attn"},
      {"show --rope inter\t", "show --rope interleaved"},
      {"show --stag\tlogs\t", "show --stage=logsumexp"},
      {"show -s q,row_m\t", "show -s q,row_max"},
      {"stats --measures entropy,largest\t", "stats --measures entropy,largest_logit"},
      {"show --quiet data/quicks\t", "show --quiet data/quickstart.json"},
      {"show X=data/quicks\t", "show X=data/quickstart.json"},
  };
  std::string input = "source ./rc\n";
  for (const auto& [keys, line] : typed) input += "mha-inspect " + keys + "\n";
  const Result result =
      shell("script -qec 'zsh -f -i' /dev/null | tr -d '\\r' | grep ^GOT: | sed 's/ *$//'",
            {.input = input + "exit\n", .env = {{"TERM", "dumb"}}, .folder = shells.path()});
  std::string expected;
  for (const auto& [keys, line] : typed) expected += "GOT:" + line + "\n";
  CHECK(result.out == expected);
}

TEST_CASE("completion: names the shells that it knows") {
  const Result unknown = run({"completion", "bsh"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("SHELL is 'bsh': one of bash, zsh, fish expected; did you mean "
                                   "'bash'?"));
  CHECK_THAT(run({"completion"}).err, Contains("completion needs a SHELL"));
  CHECK_THAT(run({"completion", "bash", "zsh"}).err, Contains("completion takes one SHELL"));
}
