#pragma once
// Comparison and diagnosis for programs: whether the saved stages of another implementation of a
// model or a layer agree, and how it differs. docs/library.md is the guide.

#include <mha/system/export.hpp>

#include <mha/mha.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// Stages that another implementation has computed. Names of other tools and other orders of axes
/// are recognised (docs/debugging.md).
struct Saved {
  /// Files, folders, or "STAGE=FILE[:TENSOR][@AXES]", as the command line takes them.
  std::vector<std::string> files = {};
  /// Tensors by name: "layers.3.q", "blocks.3.attn.hook_q", "hidden_states", "logits".
  Tensors tensors = {};
};

/// The comparison of a saved stage with ours.
struct StageDifference {
  ///@{
  /// "equal" (the same bits), "close" (within rounding), "first" (the first that differs),
  /// "inherited" (it follows from an earlier difference) or "same tensor" (both were given it).
  Stage stage = Stage::x;
  std::string status = {};
  ///@}
  ///@{
  /// The largest |ours − theirs|, absolute and relative to |theirs|, of elements that disagree, or
  /// of all if none does; how many of how many elements disagree; the cosine of both.
  double max_abs = 0, max_rel = 0;
  std::size_t mismatched = 0, count = 0;
  double cosine = 1;
  ///@}
  ///@{
  /// The element of max_abs in the stage's own axes, and both values.
  std::vector<std::size_t> at = {};
  double ours = 0, theirs = 0;
  ///@}
  /// For a stage that disagrees: whether it also does when computed from the saved stages before
  /// it. Empty if these are not enough.
  std::optional<bool> own = {};
};

/// The comparison at one place of a model.
struct PlaceDifferences {
  ///@{
  /// "layers.3", or "model" after the last layer, or "" for a single layer; and a description of
  /// the layer.
  std::string place, layer;
  ///@}
  ///@{
  /// "equal", "differs" or "incomplete", like the exit codes 0, 1 and 2 of `diff`; and the first
  /// stage that differs.
  std::string verdict;
  std::optional<Stage> first = {};
  ///@}
  /// In the order of the computation.
  std::vector<StageDifference> stages = {};
};

/// The result of a comparison.
struct Differences {
  /// "equal" guarantees that all saved stages were compared and agree.
  std::string verdict;
  /// In the order of the computation.
  std::vector<PlaceDifferences> places = {};
  ///@{
  /// "q, scores of layers 0–3; logits", and why some saved stages were not compared.
  std::string compared = {};
  std::vector<std::string> not_compared = {};
  ///@}
  /// Notes on how names and axes were read.
  std::vector<Note> notes = {};
};

/// Options of a comparison.
struct DiffOptions {
  /// The stages that must be compared; empty: all saved ones.
  std::vector<Stage> stages = {};
  ///@{
  /// |ours − theirs| ≤ absolute + relative · |theirs|; by default the tolerances of
  /// torch.testing.assert_close for the coarser type, beside the accumulated rounding error.
  std::optional<double> absolute = {}, relative = {};
  ///@}
};

/// One way in which the other implementation differs.
struct FoundCause {
  ///@{
  /// Its identifier in docs/diagnose.md ("scale.missing"), and the first stage that it changes.
  std::string id;
  Stage stage = Stage::x;
  ///@}
  ///@{
  /// What the reference does, "the reference leaves out b_q", and what to change in it.
  std::string change, cure;
  ///@}
  ///@{
  /// How to make this library do the same: as an option of the program ("--scale d_model"), and as
  /// settings of ModelOptions or Options. Empty if that is impossible, or only for part of the
  /// model.
  std::string option;
  std::vector<std::pair<std::string, std::string>> settings = {};
  ///@}
};

/// The relative error of a saved stage: as computed, and with the causes applied.
struct ComparedStage {
  ///@{
  /// The stage, and its errors.
  Stage stage = Stage::x;
  double before = 0, after = 0;
  ///@}
};

/// The diagnosis at one place of a model: before its layers, in a layer, or after the last.
struct Finding {
  ///@{
  /// "embed", "layers.3" or "model", or "" for a single layer; and a description of the layer.
  std::string place, layer;
  ///@}
  ///@{
  /// Whether the saved stages agree directly, and whether they do with the causes applied.
  bool equal = false, explained = false;
  ///@}
  /// The fewest causes that explain the differences, or else all that were found.
  std::vector<FoundCause> causes = {};
  /// Other causes that would give the same numbers.
  std::vector<std::string> same_numbers = {};
  ///@{
  /// The first stage that nothing explains, and where it differs most: "head 2 query 17".
  std::optional<Stage> unexplained = {};
  std::string at = {};
  ///@}
  /// Observations on the numbers, one sentence each.
  std::vector<std::string> hints = {};
  /// In the order of the computation.
  std::vector<ComparedStage> stages = {};
};

/// The result of a diagnosis.
struct Findings {
  /// In the order of the computation.
  std::vector<Finding> places = {};
  ///@{
  /// Whether all saved stages were compared and agree, and whether they do with the causes applied.
  bool equal = false, explained = false;
  ///@}
  ///@{
  /// "q, scores of layers 0–3; logits", and the tensors that were not compared, with reasons.
  std::string compared = {};
  std::vector<std::string> not_compared = {};
  ///@}
  /// Notes on how names and axes were read.
  std::vector<Note> notes = {};
};

/// Compares saved stages with those that a model computes for a text, stage by stage. Of the
/// options, only threads, progress and stop apply. Throws Error if nothing of the model was saved,
/// or if it belongs to another text.
MHA_API Differences diff(const Model& model, const Tokens& tokens, const Saved& saved,
                         const DiffOptions& asked = {}, const RunOptions& options = {});
/// The same for a layer with an input. `id` selects one of the saved layers if names contain
/// layers.
MHA_API Differences diff(const Layer& layer, const Saved& saved, const LayerId& id = {},
                         const DiffOptions& asked = {}, std::size_t threads = 0);

/// Compares saved stages with those that a model computes for a text, layer by layer, each from the
/// saved residual stream, and finds the fewest changes under which they agree. Of the options, only
/// threads, progress and stop apply. Throws Error if nothing of the model was saved, or if it
/// belongs to another text.
MHA_API Findings diagnose(const Model& model, const Tokens& tokens, const Saved& saved,
                          const RunOptions& options = {});
/// The same for a layer with an input. `id` selects one of the saved layers if names contain
/// layers.
MHA_API Findings diagnose(const Layer& layer, const Saved& saved, const LayerId& id = {},
                          std::size_t threads = 0);

} // namespace mha
