#pragma once
// The search for the change of a stream under which the saved stages that show it are the
// reference's.

#include <mha/diagnose/end_of_model.hpp>

#include <functional>

namespace mha {

/// Whether a change explains a saved stage. `rounding`: what that of the layers before may leave,
/// relative to the stage. It grows through the layers: what is left must be small beside what was
/// there.
bool explains(const Agreement& before, const Agreement& after, double rounding);
/// Whether it may, where a part is looked at: it is tried on all of it.
bool may_explain(const Agreement& before, const Agreement& after, double rounding);

/// Some tokens of a model's end, which show at a part of the cost what most changes do.
class EndScreen {
public:
  /// `unchanged`: the stream after the last layer.
  EndScreen(const EndOfModel& end, const Tensor& unchanged);

  const std::vector<std::size_t>& tokens() const { return part_.tokens; }
  /// Whether the rows that a change makes of these tokens, and a change of the end (or null), may
  /// explain it. `stream`: that of all tokens, which some changes of the end need.
  bool may_explain(const Tensor& rows, const Change* of_end, const Tensor& stream) const;

private:
  const EndOfModel& end_;
  const Tensor& unchanged_;
  EndSample part_;
  EndOfModel some_;
  Agreement before_;
};

/// A change that is tried.
struct StreamCandidate {
  std::vector<Change> changes;    ///< the first names them
  std::function<Tensor()> stream; ///< what it makes of the stream
  const Change* of_end = nullptr; ///< a change of what the stream enters, made with it
  std::function<Tensor()> some_rows =
      {}; ///< the stream of the screen's tokens, where that is quick
};

/// Keeps the best of what explains, the first one of those that are as good, as a diagnosis.
class Search {
public:
  /// `unchanged`: the stream without a change. `screen`: what is looked at before all of the end;
  /// or null.
  Search(const StreamView& view, const Tensor& unchanged, const EndScreen* screen = nullptr);

  /// A candidate that a layer does not allow explains nothing.
  void try_one(const StreamCandidate& candidate);

  bool is_found() const { return best_.has_value(); }
  /// How the last of the stages agrees without a change.
  const Agreement& before() const { return before_.back(); }
  std::optional<Diagnosis> found() { return std::move(best_); }

private:
  std::optional<std::vector<Diagnosis::Compared>> explained_by(const Tensor& stream,
                                                               const Change* of_end) const;
  void take(const StreamCandidate& candidate, std::vector<Diagnosis::Compared> stages);
  void also(const std::string& id);

  const StreamView& view_;
  const EndScreen* screen_;
  std::vector<Agreement> before_; ///< of each stage
  std::optional<Diagnosis> best_;
};

} // namespace mha
