#pragma once
// Which change of convention turns the difference from a reference into agreement.

#include <mha/compare/reference.hpp>
#include <mha/diagnose/agreement.hpp>
#include <mha/diagnose/captured.hpp>
#include <mha/diagnose/hypotheses/change.hpp>
#include <mha/layer/coordinates.hpp>
#include <mha/load/load.hpp>

#include <utility>
#include <vector>

namespace mha {

/// What was found.
struct Diagnosis {
  /// A stage of the reference: how far the layer is from it as given, and after the changes.
  struct Compared {
    Stage stage;
    Agreement before, after;
    /// Another value that comes to the same: "equal up to the factor 0.125"; else "".
    std::string harmless;
  };
  std::vector<Compared> stages;             ///< in the order of the computation
  bool equal = false;                       ///< within rounding, without any change
  bool explained = false;                   ///< equal, or the changes make it so
  std::vector<Change> changes;              ///< the fewest that explain; else what was found
  double error_before = 0, error_after = 0; ///< the largest relative error of the stages
  std::vector<std::string> same_numbers;    ///< changes that would explain as much
  /// The next best.
  struct RunnerUp {
    std::vector<std::string> ids;
    Message reproduction; ///< of all of them, where settings or tensors reproduce them
    double error = 0;     ///< of the first stage that differs
  };
  std::vector<RunnerUp> runners_up;
  std::optional<Stage> unexplained; ///< the first stage that no change explains
  /// Where that stage differs most, in its own axes, and the values there.
  std::vector<Coordinate> at;
  double ours = 0, theirs = 0;
  /// The short type that the reference computes in: what the changes leave is its rounding.
  std::optional<DType> rounded_to;
  /// What the numbers show where no change explains them, a sentence each.
  std::vector<std::string> hints;
  /// Tensors that are another step than they were saved as: they are not compared.
  std::vector<OtherStep> captures;
  /// How the reference was read, if not by its names: "its output is this layer's residual"; or "".
  std::string reading;
};

/// What is known beside the layer and the reference.
struct DiagnoseContext {
  bool fused = false; ///< the layer's projections came as one W_qkv
  std::size_t threads = 0;
  const ModelAround* model = nullptr;          ///< of a whole model's layer, or its ends
  const std::vector<Change>* likely = nullptr; ///< another layer's causes, tried before all others
};

/// Finds the fewest changes under which the layer gives what the reference has: stage by stage
/// where it has stages, each from the inputs that are settled before it. Throws Error where a stage
/// of the reference cannot be computed.
Diagnosis diagnose(const Layer& layer, const std::vector<ReferenceStage>& reference,
                   const DiagnoseContext& context);
/// The same of a lone layer.
Diagnosis diagnose(const Layer& layer, const std::vector<ReferenceStage>& reference,
                   bool fused = false, std::size_t threads = 0);

/// The stages of a reading that are compared.
using StagesOfReading = std::vector<ReferenceStage> (*)(const Reference& reading);

/// The diagnosis, and the reading that it is of; of as few changes the first. One at least is
/// given.
std::pair<Diagnosis, Reference> best_reading(const Layer& layer,
                                             const std::vector<Reference>& readings,
                                             StagesOfReading compared,
                                             const DiagnoseContext& context);
/// The same of a lone layer, whose readings are compared whole.
std::pair<Diagnosis, Reference> best_reading(const LoadedLayer& loaded,
                                             const std::vector<Reference>& readings,
                                             std::size_t threads);

/// Whether the files hold one matrix of queries, keys and values, so that its order has a say.
bool is_fused(const LoadedLayer& loaded);

} // namespace mha
