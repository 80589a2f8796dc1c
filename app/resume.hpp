#pragma once
// Results of many texts: files that are written while they are computed, and --resume. What a run
// has done so far is kept in FILE.resume beside its result, and the next run with the same options
// continues from it.

#include "output.hpp"
#include <mha/files/output_file.hpp>
#include <mha/layer/fingerprint.hpp>
#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/visit_entries.hpp>
#include <mha/tensor/mean_spread.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::app {

/// Visits the fields of what a run keeps: writes them, one after the other, as a text that keeps
/// every bit, or reads them back in their order. A list of fields is one function for both.
class RunState {
public:
  /// Writes.
  RunState() = default;
  /// Reads. Throws Error where there is something else than what is asked for.
  RunState(std::string text, std::string path)
      : writes_(false), text_(std::move(text)), path_(std::move(path)) {}

  bool writes() const { return writes_; }
  RunState& field(std::size_t& number);
  RunState& field(double& number);
  RunState& field(bool& flag);
  RunState& field(std::string& text);
  RunState& field(MeanSpread& spread);
  /// A list's or a map's elements: `visit(element)` or `visit(key, value)` visits the fields. What
  /// is read is added.
  template <class T, class Visit> RunState& list(std::vector<T>& list, const Visit& visit) {
    std::size_t count = list.size();
    field(count);
    if (writes_)
      for (T& one : list) visit(one);
    else
      for (; count > 0; --count) visit(list.emplace_back());
    return *this;
  }
  template <class Map, class Visit> RunState& entries(Map& map, const Visit& visit) {
    visit_entries(*this, map, visit);
    return *this;
  }
  /// What was written; what has not been read.
  const std::string& text() const { return text_; }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }

private:
  [[noreturn]] void refuse() const;
  bool writes_ = true;
  std::string text_, path_;
  std::size_t at_ = 0;
};

/// What decides the numbers of all texts: weights, tokens, patches and, as `settings`, the words
/// that chose what is computed and how it is written.
std::string mark_of_texts(const OpenedModel& model, const std::string& settings);

class ResumeFile {
public:
  /// Without --resume it keeps nothing and finds nothing. `result`: the path of --output; Throws
  /// UsageError where that is no file of its own.
  ResumeFile(bool asked, const std::string& result);
  bool asked() const { return asked_; }

  /// Where the run was, if it was: the texts that are done, and its state. Throws Error where the
  /// file is of a run with another mark.
  struct Found {
    std::size_t texts = 0;
    RunState state;
  };
  std::optional<Found> find(const std::string& mark);
  /// The texts that are done, whose state `visit` has read from a RunState; 0: none. `mark` makes
  /// the run's mark, only where --resume asks for it.
  template <class Mark, class Visit> std::size_t resume(const Mark& mark, const Visit& visit) {
    if (!asked_) return 0;
    std::optional<Found> found = find(mark());
    if (!found) return 0;
    visit(found->state);
    return found->texts;
  }

  /// Keeps the state that `visit` writes, unless the last one was kept so shortly ago that keeping
  /// would take more than a tenth of the time.
  template <class Visit> void keep(std::size_t texts, const Visit& visit) {
    if (!asked_ || !is_due()) return;
    const auto start = Clock::now();
    RunState state;
    visit(state);
    write(texts, state.text());
    kept_ = Clock::now(), took_ = kept_ - start;
  }
  /// The result is whole.
  void remove();

private:
  using Clock = std::chrono::steady_clock;
  bool is_due() const { return Clock::now() - kept_ >= 10 * took_; }
  void write(std::size_t texts, const std::string& state) const;

  bool asked_;
  std::string path_, mark_;
  Clock::time_point kept_{};
  Clock::duration took_{};
};

/// A file that appears under its path once it is finished, or standard output.
class GrowingFile {
public:
  /// `path` "" or "-": standard output. Throws Error where no file can be created there.
  explicit GrowingFile(const std::string& path);

  /// Appends text. Throws Error where it cannot be written, as on a full disk.
  void write(std::string_view text);
  /// Renames the temporary file to its path, or flushes standard output.
  void finish();

  /// The text of the file so far, in the state that --resume keeps: what is read is written.
  void visit(RunState& state);

private:
  std::optional<io::OutputFile> file_;
  std::uint64_t size_ = 0;
};

} // namespace mha::app
