#pragma once
// Standard output and standard error. Only this file prints.

#include <mha/render/text.hpp>
#include <mha/system/note.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace mha::app {

/// When to colour.
enum class Color : std::uint8_t { automatic, always, never };

/// The style of text on a stream: colours if it is a terminal that supports them, and its width
/// (COLUMNS or 100 in a pipe).
render::TextStyle text_style_of_output(Color color);
render::TextStyle text_style_of_messages(Color color);
/// Whether standard output is a terminal.
bool output_is_terminal();

/// Suppresses all output from now on: another process prints for this one.
void silence_output();

/// Appends to standard output. Throws Error "standard output: cannot write: …", or io::ClosedPipe.
void print(std::string_view text);
/// Writes the buffered output of print(). Called once at the end.
void flush();

/// Prints a line on standard error: "mha-inspect: …", "note: …". In a window, or if COLUMNS is set,
/// it is wrapped. Control characters in names from files are escaped.
void print_error(std::string_view message);
void print_note(std::string_view message, Color color, Severity severity = Severity::note);
/// The text of an error, a note or a message in the wording of the command line.
std::string console_text(const std::exception& error);
std::string console_text(const Note& note);
std::string console_text(const Message& message);
/// Prints text on standard error unchanged.
void print_message(std::string_view text);

/// Adds the seconds of its lifetime to a sum.
class Stopwatch {
public:
  explicit Stopwatch(double& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

} // namespace mha::app
