#pragma once
// Searches for the fewest changes that explain every stage of a reference.

#include <mha/diagnose/trials.hpp>

#include <deque>

namespace mha {

/// A set of changes, and the stages that it does not explain.
struct Cause {
  Changes changes;
  std::vector<Stage> unexplained;        ///< stages that still differ, in order
  std::map<Stage, std::string> harmless; ///< stages that differ without an effect, and in what way
  double error = 0;                      ///< the largest relative error of the steps
};

/// Whether two changes exclude each other: both concern the same thing, or one removes what the
/// other changes.
bool excludes(const Change& a, const Change& b);

class CauseSearch {
public:
  /// `targets` are in the order of the computation. The layer has tokens as rows and a batch axis.
  /// `model` is the model that contains it, or null.
  CauseSearch(const Layer& layer, const std::vector<Target>& targets, std::vector<Change> changes,
              std::size_t threads, const ModelAround* model);

  /// The best cause, then those with the same numbers. If nothing explains the reference, the cause
  /// that leaves the fewest stages unexplained; the list is never empty.
  std::vector<Cause> find();
  /// The changes that came closest at the first stage that differs, closest first.
  const std::vector<Cause>& runners_up() const { return runners_up_; }

private:
  using Inputs = std::map<Stage, Tensor>;
  struct State {
    Cause so_far;
    Inputs inputs; ///< settled stages: our value if it agrees, else the reference's
    std::map<Stage, double> off = {}; ///< relative distance of ours from the reference's
    std::size_t next = 0;
  };

  void settle(State state);
  void settle_with(State state, const Tensor& value, double error, double off);
  /// Continues with our value if the stage differs only in a way that no later stage sees. Returns
  /// whether this explains the reference without a change.
  bool settle_harmless(const State& state, const Trials& trials, const Tensor& ours,
                       double tolerance);
  bool joins_heads_later(const State& state) const;
  void settle_in_half(State state, Trials& trials, const Tensor& ours);
  Trials from_theirs(const State& state) const;
  void branch(const State& state, Trials& trials);
  Changes candidates_for(const State& state, const Trials& trials) const;
  bool explained_by_itself(const State& state, const Changes& candidates);
  void go_on(const State& state, Trials& trials, const std::vector<Changes>& found);
  bool leaves_earlier_stages(const State& state, const Changes& changes) const;
  std::vector<Changes> explaining(const State& state, Trials& trials, const Changes& candidates);
  std::vector<Changes> pairs_with_closest(const State& state, const Trials& trials,
                                          const Changes& candidates) const;
  std::vector<Changes> pairs_with_hidden_rows(const State& state, const Changes& candidates) const;
  Changes with_effects_of_their_own(const Trials& trials, const Changes& candidates) const;
  std::vector<Changes> explaining_pairs(const State& state, Trials& trials,
                                        const Changes& candidates);
  std::vector<Changes> confirmed(const State& state, const Trials& trials,
                                 const std::vector<Changes>& sets,
                                 const std::vector<Agreement>& screened) const;
  std::vector<Changes> explaining_with_scale(const State& state, Trials& trials,
                                             const Changes& candidates);
  void add_fits(const State& state, Trials& trials, Changes& candidates);
  void fit_scale(Trials& trials, Changes& candidates);
  void fit_epsilon(Trials& trials, Changes& candidates);
  void fit_softcap(Trials& trials, Changes& candidates);
  void fit_clip(const Trials& trials, Changes& candidates);
  void fit_swish(Trials& trials, Changes& candidates);
  void fit_rope(Trials& trials, Changes& candidates);
  void fit_offset(Trials& trials, Changes& candidates);
  void fit_decoded(Trials& trials, Changes& candidates);
  void fit_window(Trials& trials, Changes& candidates);
  void fit_chunks(Trials& trials, Changes& candidates);
  void fit_denominator(Trials& trials, Changes& candidates);
  void fit_joined_parts(Trials& trials, Changes& candidates);
  void fit_slopes(Trials& trials, Changes& candidates);
  void fit_heads(Trials& trials, Changes& candidates);
  void fit_distances(Trials& trials, Changes& candidates);
  void fit_embedding(Trials& trials, Changes& candidates);
  void fit_parts(Trials& trials, Changes& candidates);
  void fit_factor(Trials& trials, Changes& candidates);
  void fit_residual_scale(Trials& trials, Changes& candidates);
  const Change* keep(Change change);
  void note_runners_up(const State& state, const Trials& trials, const std::vector<Changes>& sets,
                       const std::vector<Agreement>& results);
  std::size_t order_of(const Cause& cause) const;

  const Layer& layer_;
  const std::vector<Target>& targets_;
  /// A deque, so that pointers stay valid when fitted changes are added.
  std::deque<Change> changes_;
  std::size_t threads_;
  const ModelAround* model_;
  std::vector<Cause> complete_, runners_up_;
  /// The results of single changes at the last stage tried.
  std::map<const Change*, Agreement> alone_;
};

} // namespace mha
