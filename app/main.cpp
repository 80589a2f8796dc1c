// Entry of the program: parses the command line, runs the command and reports every error.

#include "commands/commands.hpp"
#include "console.hpp"
#include "help.hpp"
#include "layer_notes.hpp"
#include "manual.hpp"
#include "process.hpp"
#include <mha/files/inputs.hpp>
#include <mha/files/writer.hpp>
#include <mha/formats/json_scanner.hpp>
#include <mha/ranks/ranks.hpp>
#include <mha/system/one_of.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <new>

namespace mha::app {

namespace {

std::string usage_hint(const std::string& command) {
  return fmt::format(" (see `mha-inspect {}--help`)", command.empty() ? "" : command + " ");
}

/// Whether the first word is a path or a binding (NAME=FILE), which suggests that the command is
/// missing.
bool looks_like_a_source(const std::string& word) {
  return word.find_first_of("./=") != std::string::npos || access(word.c_str(), F_OK) == 0;
}

const Command& find_command(const std::string& name) {
  try {
    return command_named(name);
  } catch (const UsageError&) {
    if (!looks_like_a_source(name)) throw;
    throw UsageError(
        fmt::format("'{}' is not a command; did you mean `mha-inspect show {}`?", name, name));
  }
}

/// -h shows a page; --help and -h all show everything.
HelpDepth help_depth(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i)
    if (arguments[i] == "--help" ||
        (arguments[i] == "-h" && i + 1 < arguments.size() && arguments[i + 1] == "all"))
      return HelpDepth::whole;
  return HelpDepth::page;
}

/// Prints the line of a JSON text where an error is, with a caret below the place.
void print_place(const std::exception& error) {
  const auto* json = dynamic_cast<const io::JsonError*>(&error);
  if (!json) return;
  const std::string before = render::visible(json->around->before),
                    line = before + render::visible(json->around->after);
  constexpr std::size_t widest = 100; // a line of bytes is wider, since each is escaped
  if (render::display_width(line) > widest) return;
  print_message(fmt::format("  {}\n  {:{}}^\n", line, "", render::display_width(before)));
}

int run(std::vector<std::string> arguments) {
  const render::TextStyle style = text_style_of_output(Color::automatic);
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    print(help_of_program(style));
    return 0;
  }
  if (arguments[0] == "--version" || arguments[0] == "-V") {
    print("mha-inspect " MHA_VERSION "\n");
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "help" && arguments[1] == "--share") {
    write_manuals_and_completions(arguments[2]); // man pages and completions, for `cmake --install`
    return 0;
  }
  if (arguments[0] == "help") { // `help show` means `show --help`
    if (arguments.size() == 1)
      arguments = {"--help"};
    else if (arguments.size() == 3 && arguments[2] == "all")
      arguments = {arguments[1], "--help", "all"};
    else
      arguments = {arguments[1], "--help"};
    return run(std::move(arguments));
  }
  const std::string name = arguments[0];
  std::string hinted_command;
  try {
    if (name[0] == '-')
      throw UsageError(fmt::format("'{}' comes before the command: put options after it", name));
    const Command& command = find_command(name);
    hinted_command = name;
    Cli cli(name);
    const Run run_command = command.declare(cli);
    arguments.erase(arguments.begin());
    if (!cli.parse(arguments)) {
      print(help_of(command, cli, help_depth(arguments), style));
      return 0;
    }
    if (!is_one_of(std::string("--quiet"), *cli.given()))
      for (const std::string& note : cli.notes()) print_note(note, Color::automatic);
    // A command that is not computed on all processes (ranks) runs on the first one only.
    const int code = command.together || world().is_first() ? run_command() : 0;
    cli.end();
    io::require_unchanged_inputs();
    return code;
  } catch (const UsageError& error) {
    throw Error(console_text(error) + usage_hint(hinted_command));
  }
}

} // namespace

} // namespace mha::app

namespace {

/// The system gives an opened file the lowest free descriptor. If a standard stream is closed when
/// the program starts, a file opened later would take its descriptor and receive the text printed
/// to the stream. /dev/null therefore takes the descriptor, in the direction in which the stream is
/// not used, so that each use of the stream fails.
void occupy_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 &&
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
      return; // /dev/null cannot be opened
}

int run_program(int argument_count, char** arguments) {
  occupy_standard_streams();
  mha::app::handle_signals();
  const mha::io::InputGuard input_guard; // for the whole run
  mha::Ranks& ranks = mha::world();
  if (!ranks.is_first()) mha::app::silence_output();
  try {
    const int code = mha::app::run(
        std::vector<std::string>(arguments + (argument_count > 0), arguments + argument_count));
    mha::app::flush();
    mha::app::print_deferred_notes();
    ranks.meet();
    ranks.leave();
    return ranks.is_first() ? code : 0;
  } catch (const mha::io::ClosedPipe&) {
    // The reader has closed standard output, so that the buffered rest cannot be written either;
    // _exit does not try again.
    ranks.failed("");
    ranks.leave();
    _exit(0);
  } catch (const mha::RankFailed& error) { // every process has this error already
    mha::app::print_deferred_notes();
    mha::app::print_error(mha::app::console_text(error));
  } catch (const std::bad_alloc&) {
    if (ranks.count() == 1)
      std::fputs("mha-inspect: out of memory\n", stderr); // allocates no memory
    else
      mha::app::print_error(ranks.failed("out of memory"));
  } catch (const std::exception& error) {
    mha::app::print_deferred_notes();
    mha::app::print_error(ranks.failed(mha::app::console_text(error)));
    mha::app::print_place(error);
  }
  std::fflush(stderr);
  ranks.leave();
  _exit(ranks.is_first() ? 2 : 0); // only the first process reports the failure
}

} // namespace

int main(int argument_count, char** arguments) {
  return mha::app::run_on_own_stack([&] { return run_program(argument_count, arguments); });
}
