#pragma once
// Results over many texts: files that are written while texts are computed, and --resume. The state
// of a run is kept in FILE.resume beside its result, and the next run with the same options
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

/// Writes the fields of a run's state as a text that preserves every bit, or reads them back in the
/// same order. One function that visits the fields does both.
class RunState {
public:
  /// For writing.
  RunState() = default;
  /// For reading. Throws Error if the text does not have the visited fields.
  RunState(std::string text, std::string path)
      : writes_(false), text_(std::move(text)), path_(std::move(path)) {}

  bool writes() const { return writes_; }
  RunState& field(std::size_t& number);
  RunState& field(double& number);
  RunState& field(bool& flag);
  RunState& field(std::string& text);
  RunState& field(MeanSpread& spread);
  /// Visits the elements of a list or a map by `visit(element)` or `visit(key, value)`. Elements
  /// that are read are added.
  template <class T, class Visit> RunState& list(std::vector<T>& list, const Visit& visit) {
    std::size_t count = list.size();
    field(count);
    if (writes_)
      for (T& element : list) visit(element);
    else
      for (; count > 0; --count) visit(list.emplace_back());
    return *this;
  }
  template <class Map, class Visit> RunState& entries(Map& map, const Visit& visit) {
    visit_entries(*this, map, visit);
    return *this;
  }
  /// The written text; the part that has not been read.
  const std::string& text() const { return text_; }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }

private:
  [[noreturn]] void refuse() const;
  bool writes_ = true;
  std::string text_, path_;
  std::size_t at_ = 0;
};

/// A fingerprint of all that determines the results: weights, tokens, patches and, as `settings`,
/// the options that choose what is computed and how it is written.
std::string run_fingerprint(const OpenedModel& model, const std::string& settings);

class ResumeFile {
public:
  /// Does nothing without --resume (`asked`). `result`: the path of --output. Throws UsageError if
  /// that is not a regular file.
  ResumeFile(bool asked, const std::string& result);
  bool asked() const { return asked_; }

  /// The number of finished texts and the state of an earlier run, if there is one. Throws Error if
  /// the file belongs to a run with another fingerprint.
  struct Found {
    std::size_t texts = 0;
    RunState state;
  };
  std::optional<Found> find(const std::string& fingerprint);
  /// Returns the number of finished texts, after `visit` has read their state from a RunState.
  /// `fingerprint` computes the run's fingerprint, and is only called with --resume.
  template <class Compute, class Visit>
  std::size_t resume(const Compute& fingerprint, const Visit& visit) {
    if (!asked_) return 0;
    std::optional<Found> found = find(fingerprint());
    if (!found) return 0;
    visit(found->state);
    return found->texts;
  }

  /// Keeps the state that `visit` writes, unless saving would take more than a tenth of the run's
  /// time.
  template <class Visit> void keep(std::size_t texts, const Visit& visit) {
    if (!asked_ || !is_due()) return;
    const auto start = Clock::now();
    RunState state;
    visit(state);
    write(texts, state.text());
    kept_ = Clock::now(), saving_time_ = kept_ - start;
  }
  /// Removes the state when the result is complete.
  void remove();

private:
  using Clock = std::chrono::steady_clock;
  bool is_due() const { return Clock::now() - kept_ >= 10 * saving_time_; }
  void write(std::size_t texts, const std::string& state) const;

  bool asked_;
  std::string path_, fingerprint_;
  Clock::time_point kept_{};
  Clock::duration saving_time_{};
};

/// A file that is written piece by piece and appears at its path when finished, or standard output.
class GrowingFile {
public:
  /// `path` "" or "-": standard output. Throws Error if no file can be created there.
  explicit GrowingFile(const std::string& path);

  /// Appends text. Throws Error if it cannot be written, as on a full disk.
  void write(std::string_view text);
  /// Renames the temporary file to its path, or flushes standard output.
  void finish();

  /// Visits the text so far, for --resume. Text that is read is written to the file.
  void visit(RunState& state);

private:
  std::optional<io::OutputFile> file_;
  std::uint64_t size_ = 0;
};

} // namespace mha::app
