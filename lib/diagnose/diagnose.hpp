#pragma once
// Finds the changes of convention under which a layer agrees with a reference.

#include <mha/compare/reference.hpp>
#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/captured.hpp>
#include <mha/diagnose/hypotheses/change.hpp>
#include <mha/load/load.hpp>
#include <mha/naming/coordinates.hpp>
#include <utility>
#include <vector>

namespace mha {

/// The result of a diagnosis.
struct Diagnosis {
  /// A stage of the reference, and how the layer agrees with it before and after the changes.
  struct Compared {
    Stage stage;
    Agreement before, after;
    /// How the value differs without an effect, "equal up to the factor 0.125"; or "".
    std::string harmless;
  };
  std::vector<Compared> stages; ///< in the order of the computation
  bool equal = false;           ///< within rounding, without any change
  bool explained = false;       ///< equal, or the changes make it so
  std::vector<Change> changes;  ///< the fewest that explain the reference, or those found
  double error_before = 0, error_after = 0; ///< the largest relative errors of the stages
  std::vector<std::string> same_numbers;    ///< ids of changes that would explain as much
  /// A set of changes that came close.
  struct RunnerUp {
    std::vector<std::string> ids;
    Message reproduction; ///< settings or tensors that reproduce all of them
    double error = 0;     ///< of the first stage that differs
  };
  std::vector<RunnerUp> runners_up;
  std::optional<Stage> unexplained; ///< the first stage that no change explains
  /// The element of that stage that differs most, in its own axes, and its values.
  std::vector<Coordinate> at;
  double ours = 0, theirs = 0;
  /// The short type in which the reference computes; the remaining difference is its rounding.
  std::optional<DType> rounded_to;
  /// Sentences on what the numbers show if no change explains them.
  std::vector<std::string> hints;
  /// Tensors that were saved under another step's name and are not compared.
  std::vector<OtherStep> captures;
  /// How the reference was interpreted, if not by its names: "its output is this layer's residual";
  /// or "".
  std::string reading;
};

/// What is known in addition to the layer and the reference.
struct DiagnoseContext {
  bool fused = false; ///< the layer's projections were loaded from one W_qkv
  std::size_t threads = 0;
  /// The model of the layer or of the ends; null for a lone layer.
  const ModelAround* model = nullptr;
  const std::vector<Change>* likely = nullptr; ///< another layer's causes, tried first
};

/// Finds the fewest changes under which the layer reproduces the reference. Stages are settled in
/// order, each from those settled before it. Throws Error if the reference has no stage that can be
/// computed.
Diagnosis diagnose(const Layer& layer, const std::vector<ReferenceStage>& reference,
                   const DiagnoseContext& context);
/// The same for a lone layer.
Diagnosis diagnose(const Layer& layer, const std::vector<ReferenceStage>& reference,
                   bool fused = false, std::size_t threads = 0);

/// Returns the stages of a reading that are compared.
using StagesOfReading = std::vector<ReferenceStage> (*)(const Reference& reading);

/// The diagnosis with the fewest changes over all readings (at least one is given), the first of
/// equals, and its reading. Names in a reference that fit several stages are tried in each of these
/// readings.
std::pair<Diagnosis, Reference> best_reading(const Layer& layer,
                                             const std::vector<Reference>& readings,
                                             StagesOfReading compared,
                                             const DiagnoseContext& context);
/// The same for a lone layer, comparing all stages.
std::pair<Diagnosis, Reference> best_reading(const LoadedLayer& loaded,
                                             const std::vector<Reference>& readings,
                                             std::size_t threads);

/// Whether the files hold queries, keys and values in one matrix, whose order then matters.
bool is_fused(const LoadedLayer& loaded);

} // namespace mha
