#pragma once
// Standard output and standard error: the one place that prints.

#include <mha/render/text.hpp>
#include <mha/system/note.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace mha::app {

/// When to colour.
enum class Color : std::uint8_t { automatic, always, never };

/// How to write for a stream's reader: colours if it is a terminal that wants them, and its width
/// (100 in a pipe, or COLUMNS).
render::TextStyle text_style_of_output(Color color);
render::TextStyle text_style_of_messages(Color color);
/// Whether standard output is a terminal.
bool output_is_terminal();

/// From now on nothing is printed: another process speaks for this one.
void silence_output();

/// Appends to standard output. Throws Error "standard output: cannot write: …", or io::ClosedPipe.
void print(std::string_view text);
/// Writes out what print() still holds; called once at the end.
void flush();

/// A line on standard error: "mha-inspect: …", "note: …"; in a window, or where COLUMNS is set, its
/// words in lines that fit. Names out of files cannot drive the terminal.
void print_error(std::string_view message);
void print_note(std::string_view message, Color color, Severity severity = Severity::note);
/// What an error, a note or a message says in the command line's words.
std::string console_text(const std::exception& error);
std::string console_text(const Note& note);
std::string console_text(const Message& message);
/// Text on standard error as it is.
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
