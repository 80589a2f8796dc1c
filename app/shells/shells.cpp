#include "shells/shells.hpp"

#include <mha/layer/stage.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

namespace mha::app {

namespace {

constexpr Shell every_shell[] = {
    {"bash", "bash-completion/completions/mha-inspect", bash_script},
    {"zsh", "zsh/site-functions/_mha-inspect", zsh_script},
    {"fish", "fish/vendor_completions.d/mha-inspect.fish", fish_script},
};

} // namespace

std::span<const Shell> shells() {
  return every_shell;
}

const Shell& shell_named(std::string_view name) {
  if (const Shell* shell = find_named(every_shell, name)) return *shell;
  fail("unknown shell '{}'", name);
}

std::vector<std::string> stage_words() {
  std::vector<std::string> words{"all"};
  for (const auto& rows : {stages(), derived_stages()})
    for (const StageInfo& info : rows) words.emplace_back(info.name);
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  return joined_texts(words, " ");
}

std::string brief(std::string_view help) {
  return std::string(help.substr(0, help.find("; ")));
}

std::string quoted(std::string_view text, std::string_view escape) {
  return "'" + with_replaced(text, {{'\'', escape}}) + "'";
}

} // namespace mha::app
