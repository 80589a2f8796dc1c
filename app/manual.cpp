#include "manual.hpp"

#include "help.hpp"
#include "options.hpp"
#include "shells/shells.hpp"
#include <mha/files/writer.hpp>

#include <algorithm>
#include <filesystem>

namespace mha::app {

namespace {

/// The code point that begins at `at`, which moves on behind it. The texts are ours: valid UTF-8.
std::uint32_t next_code(std::string_view text, std::size_t& at) {
  const auto byte = [&] { return static_cast<unsigned char>(text[at++]); };
  const std::uint32_t first = byte();
  const int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  std::uint32_t code = more == 0 ? first : first & (0x3fu >> more);
  for (int i = 0; i < more && at < text.size(); ++i) code = code << 6 | (byte() & 0x3fu);
  return code;
}

/// Text as roff prints it literally: no requests, dashes that can be copied, other signs by number.
std::string roff(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t code = next_code(text, at);
    if (code == '\\')
      out += "\\e";
    else if (code == '-')
      out += "\\-";
    else if (code == '\'')
      out += "\\(aq";
    else if (code == '"')
      out += "\\(dq";
    else if (code == '`')
      out += "\\(ga";
    else if (code == '^')
      out += "\\(ha";
    else if (code == '~')
      out += "\\(ti";
    else if (code == '\n')
      out += ' ';
    else if (code < 0x80)
      out += static_cast<char>(code);
    else
      out += fmt::format("\\[u{:04X}]", code);
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(std::string_view text) {
  return "\\fB" + roff(text) + "\\fR";
}

std::string title(std::string_view page, std::string_view summary) {
  std::string upper(page);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return 'a' <= c && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return fmt::format(".TH {} 1 \"\" \"mha\\-inspect {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
                     roff(upper), MHA_VERSION, roff(page), roff(summary));
}

std::string heading(std::string_view text) {
  return ".SH \"" + roff(text) + "\"\n";
}

std::string entry(const std::string& term, std::string_view text) {
  return ".TP\n" + term + "\n" + roff(text) + "\n";
}

/// Lines to copy, each with what it does.
std::string examples_of(const std::vector<Example>& examples) {
  std::string out;
  for (const Example& example : examples)
    out += (out.empty() ? "" : ".PP\n") + roff(example.text) + ":\n.PP\n.nf\n.RS 4\n" +
           roff("mha-inspect " + example.line) + "\n.RE\n.fi\n";
  return heading("EXAMPLES") + out;
}

std::string exit_status() {
  return heading("EXIT STATUS") + entry(bold("0"), "done") +
         entry(bold("1"), "what was compared differs, or nothing was found") +
         entry(bold("2"), "wrong usage, bad input, or output that cannot be written") +
         entry(bold("130") + ", " + bold("143"), "interrupted, or told to end");
}

std::string option_terms(const Option& option) {
  std::string term = option.letter.empty() ? "" : bold(option.letter) + ", ";
  term += bold(option.name);
  if (!option.off.empty()) term += ", " + bold(option.off);
  if (!option.is_flag()) term += " \\fI" + roff(option.value_name) + "\\fR";
  return term;
}

} // namespace

std::string manual_of_program(const std::vector<Declared>& commands) {
  std::string out = title("mha-inspect", program_summary);
  out += heading("SYNOPSIS") + ".B mha\\-inspect\n.I COMMAND SOURCE...\n[options]\n";
  out += heading("DESCRIPTION") + roff(program_about) + "\n.PP\n" + roff(sources_help) + "\n";
  out += heading("COMMANDS") +
         "Each has a page of its own: \\fBmha\\-inspect\\-\\fR\\fICOMMAND\\fR(1).\n";
  for (const Declared& declared : commands)
    out += entry(bold(declared.cli.command()), declared.command->summary);
  out += heading("ENVIRONMENT") +
         entry(bold("NO_COLOR"), "if set, no colours unless --color always is given") +
         entry(bold("TERM"), "dumb: no colours") +
         entry(bold("COLUMNS"), "how wide lines are where the output is no terminal; default 100") +
         entry(bold("TMPDIR"), "where output for pipes is prepared; default /tmp") +
         entry(bold("MHA_CPU"), "instructions to use at most: portable, avx2, avx512 or amx");
  out += exit_status() + examples_of(program_examples());
  return out;
}

std::string manual_of(const Declared& declared) {
  const Cli& cli = declared.cli;
  std::string out = title("mha-inspect-" + cli.command(), declared.command->summary);
  out += heading("SYNOPSIS") + ".B mha\\-inspect " + roff(cli.command()) + "\n";
  if (!cli.positional_name().empty()) {
    const bool needed = cli.positional_required();
    out += fmt::format("{}\\fI{}\\fR{}\n", needed ? "" : "[", roff(cli.positional_name()),
                       needed ? "" : "]");
  }
  if (!cli.options().empty()) out += "[options]\n";
  out += heading("DESCRIPTION") + roff(cli.about()) + "\n";
  if (!cli.positional_name().empty())
    out += entry("\\fI" + roff(cli.positional_name()) + "\\fR", cli.positional_help());
  for (const std::string& group : groups_of(cli)) {
    out += ".SS \"" + roff(group) + "\"\n";
    for (const Option& option : cli.options())
      if (option.group == group) out += entry(option_terms(option), option.help);
  }
  out += exit_status() + examples_of(cli.examples());
  out += heading("SEE ALSO") + ".BR mha\\-inspect (1)\n";
  return out;
}

void write_share(const std::string& folder) {
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
  for (const Shell& shell : shells()) write(std::string(shell.place), shell.script(commands));
}

} // namespace mha::app
