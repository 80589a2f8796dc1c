#pragma once
// Searches for the change of a stream under which the saved stages that depend on it agree with the
// reference.

#include <mha/diagnose/end_of_model.hpp>

#include <functional>

namespace mha {

/// Whether a change explains a saved stage. `rounding` is the relative error that rounding in the
/// earlier layers may leave. Since it grows through the layers, the remaining error must also be
/// small compared with the error before.
bool explains(const Agreement& before, const Agreement& after, double rounding);
/// Whether a change may explain a stage, judged on a part; it is then tried on the whole stage.
bool may_explain(const Agreement& before, const Agreement& after, double rounding);

/// Some tokens of a model's end, which show the effect of most changes at a fraction of the cost.
class EndScreen {
public:
  /// `unchanged` is the stream after the last layer.
  EndScreen(const EndOfModel& end, const Tensor& unchanged);

  const std::vector<std::size_t>& tokens() const { return part_.tokens; }
  /// Whether a change that gives these tokens' `rows`, together with a change of the end (or null),
  /// may explain the end. `stream` has all tokens, which some changes of the end need.
  bool may_explain(const Tensor& rows, const Change* of_end, const Tensor& stream) const;

private:
  const EndOfModel& end_;
  const Tensor& unchanged_;
  EndSample part_;
  EndOfModel some_;
  Agreement before_;
};

/// A candidate of the search.
struct StreamCandidate {
  std::vector<Change> changes;    ///< the first one names the cause
  std::function<Tensor()> stream; ///< computes the changed stream
  const Change* of_end = nullptr; ///< a change of what the stream enters, or null
  /// Computes only the tokens of the screen, if that is faster.
  std::function<Tensor()> some_rows = {};
};

/// Tries candidates and keeps the best that explains the stages, the first of equals, as a
/// diagnosis.
class Search {
public:
  /// `unchanged` is the stream without a change. `screen` (or null) is checked before the whole
  /// end.
  Search(const StreamView& view, const Tensor& unchanged, const EndScreen* screen = nullptr);

  /// Tries a candidate; one that a layer does not allow explains nothing.
  void try_one(const StreamCandidate& candidate);

  bool is_found() const { return best_.has_value(); }
  /// How the last stage agrees without a change.
  const Agreement& before() const { return before_.back(); }
  std::optional<Diagnosis> found() { return std::move(best_); }

private:
  std::optional<std::vector<Diagnosis::Compared>> explained_by(const Tensor& stream,
                                                               const Change* of_end) const;
  void take(const StreamCandidate& candidate, std::vector<Diagnosis::Compared> stages);
  void also(const std::string& id);

  const StreamView& view_;
  const EndScreen* screen_;
  std::vector<Agreement> before_; ///< how each stage agrees without a change
  std::optional<Diagnosis> best_;
};

} // namespace mha
