#include "manual.hpp"

#include "help.hpp"
#include "options.hpp"
#include "roff.hpp"
#include "shells/shells.hpp"
#include <mha/files/writer.hpp>

#include <algorithm>
#include <filesystem>

namespace mha::app {

namespace {

using roff::bold;
using roff::entry;
using roff::heading;
using roff::italic;

/// Command lines to copy, each with a description.
std::string examples_of(const std::vector<Example>& examples) {
  std::string out;
  for (const Example& example : examples)
    out += (out.empty() ? "" : ".PP\n") + roff::text(example.text) + ":\n" +
           roff::line("mha-inspect " + example.line);
  return heading("EXAMPLES") + out;
}

std::string exit_status() {
  return heading("EXIT STATUS") + entry(bold("0"), "done") +
         entry(bold("1"), "a comparison found a difference, or a search found nothing") +
         entry(bold("2"), "wrong usage, bad input, or output that cannot be written") +
         entry(bold("130") + ", " + bold("143"), "interrupted or terminated");
}

std::string option_terms(const Option& option) {
  std::string term = option.letter.empty() ? "" : bold(option.letter) + ", ";
  term += bold(option.name);
  if (!option.off.empty()) term += ", " + bold(option.off);
  if (!option.is_flag()) term += " " + italic(option.value_name);
  return term;
}

} // namespace

std::string manual_of_program(const std::vector<Declared>& commands) {
  std::string out = roff::title("mha-inspect", 1, program_summary);
  out += heading("SYNOPSIS") + ".B mha\\-inspect\n.I COMMAND SOURCE...\n[options]\n";
  out += heading("DESCRIPTION") + roff::text(program_about) + "\n" + roff::paragraph(sources_help);
  out += heading("COMMANDS") +
         "Each has a page of its own: \\fBmha\\-inspect\\-\\fR\\fICOMMAND\\fR(1).\n";
  for (const Declared& declared : commands)
    out += entry(bold(declared.cli.command()), declared.command->summary);
  out += heading("ENVIRONMENT") +
         entry(bold("NO_COLOR"), "if set, no colours unless --color always is given") +
         entry(bold("TERM"), "dumb: no colours") +
         entry(bold("COLUMNS"), "the line width if the output is not a terminal; default: 100, "
                                "with messages on one line each") +
         entry(bold("TMPDIR"), "the folder for temporary output to pipes; default: /tmp") +
         entry(bold("MHA_CPU"),
               "the most advanced instructions to use: portable, avx2, avx512 or amx; on AArch64, "
               "portable or neon");
  out += exit_status() + examples_of(program_examples());
  return out + roff::see_also({{formats_page, 5}, {stages_page, 7}});
}

std::string manual_of(const Declared& declared) {
  const Cli& cli = declared.cli;
  std::string out = roff::title("mha-inspect-" + cli.command(), 1, declared.command->summary);
  out += heading("SYNOPSIS") + ".B mha\\-inspect " + roff::text(cli.command()) + "\n";
  if (!cli.positional_name().empty()) {
    const bool needed = cli.positional_required();
    out += fmt::format("{}\\fI{}\\fR{}\n", needed ? "" : "[", roff::text(cli.positional_name()),
                       needed ? "" : "]");
  }
  if (!cli.options().empty()) out += "[options]\n";
  out += heading("DESCRIPTION") + roff::text(cli.about()) + "\n";
  if (!cli.positional_name().empty())
    out += entry(italic(cli.positional_name()), cli.positional_help());
  for (const std::string& group : groups_of(cli)) {
    out += roff::subheading(group);
    for (const Option& option : cli.options())
      if (option.group == group) out += entry(option_terms(option), option.help);
  }
  out += exit_status() + examples_of(cli.examples());
  return out + roff::see_also({{"mha-inspect", 1}, {formats_page, 5}, {stages_page, 7}});
}

void write_manuals_and_completions(const std::string& folder) {
  namespace fs = std::filesystem;
  const auto write = [&](const std::string& place, const std::string& text) {
    const fs::path path = fs::path(folder) / place;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    io::write_whole(path.string(), text);
  };
  const std::vector<Declared> commands = declared_commands();
  write("man/man1/mha-inspect.1", manual_of_program(commands));
  for (const Declared& declared : commands)
    write(fmt::format("man/man1/mha-inspect-{}.1", declared.cli.command()), manual_of(declared));
  write(fmt::format("man/man5/{}.5", formats_page), manual_of_formats());
  write(fmt::format("man/man7/{}.7", stages_page), manual_of_stages());
  for (const Shell& shell : shells()) write(std::string(shell.place), shell.script(commands));
}

} // namespace mha::app
