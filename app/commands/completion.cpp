// completion: prints a script with which a shell completes the words of a command line.

#include "commands/commands.hpp"
#include "console.hpp"
#include "shells/shells.hpp"
#include <mha/system/named.hpp>

#include <memory>

namespace mha::app {

Run declare_completion(Cli& cli) {
  const auto shell = std::make_shared<std::vector<std::string>>();
  cli.about("Prints a script that completes commands, options, their values, stages and files. It "
            "is generated from the same declarations as --help and is static: the shell starts no "
            "program for completions.");
  cli.positionals("SHELL", "bash, zsh or fish", *shell, true, names_of_rows<std::string>(shells()));
  cli.example("completion bash > mha-inspect.bash",
              "bash: save it as ~/.local/share/bash-completion/completions/mha-inspect");
  cli.example("completion zsh > _mha-inspect", "zsh: save it in a folder of $fpath");
  cli.example("completion fish > mha-inspect.fish", "fish: save it in ~/.config/fish/completions");
  return [shell] {
    print(shell_named(shell->front()).script(declared_commands()));
    return 0;
  };
}

} // namespace mha::app
