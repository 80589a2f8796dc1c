#include "console.hpp"

#include <mha/files/inputs.hpp>
#include <mha/files/writer.hpp>
#include <mha/ranks/ranks.hpp>
#include <mha/system/error.hpp>
#include <mha/system/parse.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace mha::app {

namespace {

bool silent = false;

constexpr std::size_t width_in_a_pipe = 100;
constexpr std::size_t narrowest = 20;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

/// The width of a stream's window, or COLUMNS.
std::optional<std::size_t> columns_of(int stream, bool terminal) {
  winsize size{};
  if (terminal && ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col < narrowest ? narrowest : size.ws_col;
  if (const char* text = std::getenv("COLUMNS")) {
    const auto columns = parse_number<std::size_t>(text);
    if (columns && *columns >= narrowest) return columns;
  }
  return std::nullopt;
}

/// The rows of the terminal, or 0.
std::size_t window_rows(int stream, bool terminal) {
  winsize size{};
  return terminal && ioctl(stream, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

/// The number of colours, from COLORTERM or TERM.
render::Depth color_depth(bool color, Color asked) {
  if (!color) return render::Depth::none;
  const auto is = [](const char* variable, std::string_view part) {
    const char* value = std::getenv(variable);
    return value && std::string_view(value).find(part) != std::string_view::npos;
  };
  if (is("COLORTERM", "truecolor") || is("COLORTERM", "24bit") || is("TERM", "direct"))
    return render::Depth::truecolor;
  return asked == Color::always || is("TERM", "256color") ? render::Depth::palette
                                                          : render::Depth::none;
}

render::TextStyle text_style_of(int stream, Color color) {
  render::TextStyle text_style;
  text_style.terminal = isatty(stream) == 1 && !launched_by_mpi(); // mpirun pipes a rank's output
  const std::optional<std::size_t> columns = columns_of(stream, text_style.terminal);
  text_style.width = columns.value_or(width_in_a_pipe);
  text_style.window = columns.has_value();
  const char* term = std::getenv("TERM");
  const bool dumb = !term || std::strcmp(term, "dumb") == 0;
  text_style.color = color == Color::always || (color == Color::automatic && text_style.terminal &&
                                                !dumb && !is_set("NO_COLOR"));
  text_style.height = window_rows(stream, text_style.terminal);
  text_style.depth = color_depth(text_style.color, color);
  return text_style;
}

/// Prints one line if the width is unknown, so that programs can parse it; wraps it in a window.
void print_line(std::string_view before, std::string_view message,
                const render::TextStyle& text_style) {
  const std::string text = fmt::format("{} {}", before, render::visible(message));
  if (!text_style.window || render::display_width(text) <= text_style.width)
    return print_message(text + "\n");
  std::string lines;
  for (const std::string& line : render::wrapped(text, text_style.width - 2))
    lines += (lines.empty() ? "" : "  ") + line + "\n";
  print_message(lines);
}

[[noreturn]] void refuse_output() {
  if (errno == EPIPE) throw io::ClosedPipe();
  fail("standard output: cannot write: {}", std::strerror(errno));
}

} // namespace

render::TextStyle text_style_of_output(Color color) {
  return text_style_of(STDOUT_FILENO, color);
}
render::TextStyle text_style_of_messages(Color color) {
  return text_style_of(STDERR_FILENO, color);
}
bool output_is_terminal() {
  return isatty(STDOUT_FILENO) == 1 && !launched_by_mpi();
}

void silence_output() {
  silent = true;
}

void print(std::string_view text) {
  if (silent) return;
  static bool checked = false; // with `>> layer.json` the input would grow while it is read
  if (!checked) io::require_no_input("-");
  checked = true;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) refuse_output();
}

void flush() {
  if (std::fflush(stdout) != 0) refuse_output();
}

std::string console_text(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours ? ours->line(Wording::command_line) : error.what();
}
std::string console_text(const Note& note) {
  return console_text(note.message);
}
std::string console_text(const Message& message) {
  return message.in_words(Wording::command_line);
}

void print_message(std::string_view text) {
  if (silent) return;
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void print_error(std::string_view message) {
  print_line("mha-inspect:", message, text_style_of_messages(Color::never));
}

void print_note(std::string_view message, Color color, Severity severity) {
  const render::TextStyle text_style = text_style_of_messages(color);
  print_line(severity == Severity::warning ? text_style.bold("warning:") : text_style.dim("note:"),
             message, text_style);
}

} // namespace mha::app
