#pragma once
// Comparison and diagnosis for programs: whether the stages that another implementation of a model
// or a layer saved agree, and what it does otherwise. docs/library.md is the guide.

#include <mha/system/export.hpp>

#include <mha/mha.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// Stages that another implementation computed. Names of other tools and axes in other orders are
/// understood, as docs/debugging.md says.
struct Saved {
  /// Files, folders, or "STAGE=FILE[:TENSOR][@AXES]", as the command line takes them.
  std::vector<std::string> files = {};
  /// Tensors by name: "layers.3.q", "blocks.3.attn.hook_q", "hidden_states", "logits".
  Tensors tensors = {};
};

/// A saved stage beside ours.
struct StageDifference {
  ///@{
  /// "equal" (the same bits), "close" (within rounding), "first" (the first that differs),
  /// "inherited" (it follows from an earlier difference) or "same tensor" (both were given it).
  Stage stage = Stage::x;
  std::string status = {};
  ///@}
  ///@{
  /// The largest |ours − theirs|, and in |theirs|, of elements that disagree; where none does, of
  /// all. How many disagree, of how many. The cosine of both.
  double max_abs = 0, max_rel = 0;
  std::size_t mismatched = 0, count = 0;
  double cosine = 1;
  ///@}
  ///@{
  /// The element of max_abs, in the stage's own axes, and its values.
  std::vector<std::size_t> at = {};
  double ours = 0, theirs = 0;
  ///@}
  /// Of a stage that disagrees: whether it does when it is computed from the saved stages before
  /// it, too. Nothing where those do not say.
  std::optional<bool> own = {};
};

/// What was compared of one place of a model.
struct PlaceDifferences {
  ///@{
  /// "layers.3" or "model", what follows the last layer; "" for a lone layer. And the layer in
  /// words.
  std::string place, layer;
  ///@}
  ///@{
  /// "equal", "differs" or "incomplete", as the exit codes 0, 1 and 2 of `diff` are; and the first
  /// stage that differs.
  std::string verdict;
  std::optional<Stage> first = {};
  ///@}
  /// In the order of the computation.
  std::vector<StageDifference> stages = {};
};

/// What a comparison found.
struct Differences {
  /// "equal" is a promise: all that was saved was compared, and agrees.
  std::string verdict;
  /// In the order of the computation.
  std::vector<PlaceDifferences> places = {};
  ///@{
  /// "q, scores of layers 0–3; logits", and why the verdict is not on all that was saved.
  std::string compared = {};
  std::vector<std::string> not_compared = {};
  ///@}
  /// What is to be known: how names and axes were read.
  std::vector<Note> notes = {};
};

/// What is asked of a comparison.
struct DiffOptions {
  /// Those that must be compared; none: all that was saved.
  std::vector<Stage> stages = {};
  ///@{
  /// |ours − theirs| ≤ absolute + relative · |theirs|; nothing: torch.testing.assert_close's for
  /// the coarser type, beside what rounding grows to.
  std::optional<double> absolute = {}, relative = {};
  ///@}
};

/// One thing that the other implementation does otherwise.
struct FoundCause {
  ///@{
  /// Its identifier in docs/diagnose.md ("scale.missing"), and the first stage that it changes.
  std::string id;
  Stage stage = Stage::x;
  ///@}
  ///@{
  /// What the reference does, "the reference leaves out b_q", and what to change there.
  std::string change, cure;
  ///@}
  ///@{
  /// What makes this library do the same: as it is typed ("--scale d_model"), and as settings of
  /// ModelOptions or Options. Empty where nothing does, or not in the whole model.
  std::string option;
  std::vector<std::pair<std::string, std::string>> settings = {};
  ///@}
};

/// How far a saved stage is from ours, as a share of it: as computed, and with the causes.
struct ComparedStage {
  ///@{
  /// The stage, and its errors.
  Stage stage = Stage::x;
  double before = 0, after = 0;
  ///@}
};

/// What was found in one place of a model: what enters its layers, a layer, or what follows the
/// last.
struct Finding {
  ///@{
  /// "embed", "layers.3" or "model"; "" for a lone layer. And the layer in words.
  std::string place, layer;
  ///@}
  ///@{
  /// Whether the saved stages agree as they are, and whether they do with the causes.
  bool equal = false, explained = false;
  ///@}
  /// The fewest that explain it; else those that were found.
  std::vector<FoundCause> causes = {};
  /// Other causes that would give the same numbers.
  std::vector<std::string> same_numbers = {};
  ///@{
  /// The first stage that nothing explains, and where it differs most: "head 2 query 17".
  std::optional<Stage> unexplained = {};
  std::string at = {};
  ///@}
  /// What the numbers show, a sentence each.
  std::vector<std::string> hints = {};
  /// In the order of the computation.
  std::vector<ComparedStage> stages = {};
};

/// What a diagnosis found.
struct Findings {
  /// In the order of the computation.
  std::vector<Finding> places = {};
  ///@{
  /// Whether all that was saved was compared and agrees, and whether it does with the causes.
  bool equal = false, explained = false;
  ///@}
  ///@{
  /// "q, scores of layers 0–3; logits", and the tensors that were not compared, with why.
  std::string compared = {};
  std::vector<std::string> not_compared = {};
  ///@}
  /// What is to be known: how names and axes were read.
  std::vector<Note> notes = {};
};

/// Compares what was saved with what a model computes for a text, stage by stage. Of the options
/// threads, progress and stop count. Throws Error where nothing of the model was saved, or it is of
/// another text.
MHA_API Differences diff(const Model& model, const Tokens& tokens, const Saved& saved,
                         const DiffOptions& asked = {}, const RunOptions& options = {});
/// The same of a layer with an input. `id`: which of the saved layers it is, where names say it.
MHA_API Differences diff(const Layer& layer, const Saved& saved, const LayerId& id = {},
                         const DiffOptions& asked = {}, std::size_t threads = 0);

/// Compares what was saved with what a model computes for a text, layer by layer, each on the
/// saved stream, and finds the fewest changes under which they agree. Of the options threads,
/// progress and stop count. Throws Error where nothing of the model was saved, or it is of another
/// text.
MHA_API Findings diagnose(const Model& model, const Tokens& tokens, const Saved& saved,
                          const RunOptions& options = {});
/// The same of a layer with an input. `id`: which of the saved layers it is, where names say it.
MHA_API Findings diagnose(const Layer& layer, const Saved& saved, const LayerId& id = {},
                          std::size_t threads = 0);

} // namespace mha
