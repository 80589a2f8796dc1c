#pragma once
// --resume of a table over many texts: what a run has done so far lies beside its result, in
// FILE.resume, and the next run with the same words goes on from there.

#include "output.hpp"
#include <mha/layer/fingerprint.hpp>
#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/tensor/mean_spread.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace mha::app {

/// Numbers and texts, one after the other, as a text that keeps every bit.
class StateWriter {
public:
  StateWriter& add(std::size_t number);
  StateWriter& add(double number);
  StateWriter& add(std::string_view text);
  StateWriter& add(const MeanSpread& spread);
  const std::string& text() const { return text_; }

private:
  std::string text_;
};

/// Reads them back in their order. Throws Error where there is something else.
class StateReader {
public:
  StateReader(std::string text, std::string path)
      : text_(std::move(text)), path_(std::move(path)) {}
  std::size_t number();
  double real();
  std::string word();
  MeanSpread spread();
  /// What has not been read.
  std::string_view rest() const { return std::string_view(text_).substr(at_); }

private:
  [[noreturn]] void refuse() const;
  std::size_t hexadecimal();
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
    StateReader state;
  };
  std::optional<Found> find(const std::string& mark);
  /// The texts that are done, whose state `load` has read from a StateReader; 0: none. `mark` makes
  /// the run's mark, only where --resume asks for it.
  template <class Mark, class Load> std::size_t resume(const Mark& mark, const Load& load) {
    if (!asked_) return 0;
    std::optional<Found> found = find(mark());
    if (!found) return 0;
    load(found->state);
    return found->texts;
  }

  /// Keeps the state that `save` writes, unless the last one was kept so shortly ago that keeping
  /// would take more than a tenth of the time.
  template <class Save> void keep(std::size_t texts, const Save& save) {
    if (!asked_ || !is_due()) return;
    const auto start = Clock::now();
    StateWriter state;
    save(state);
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

} // namespace mha::app
