#pragma once
// Compares the layers of a model one after the other, or lone layers, and sums up the results.

#include <mha/compare/coverage.hpp>
#include <mha/compare/readings.hpp>
#include <mha/compare/streams.hpp>
#include <mha/compare/verdict.hpp>
#include <mha/diagnose/gelu_forms.hpp>
#include <mha/model/opened_model.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha {

/// The options of a comparison.
struct DiffRequest {
  std::vector<Stage> stages; ///< empty: all that the reference has
  Tolerances tolerances;
  bool every_stage = false; ///< compare every stage with float64, not only those that differ
  std::size_t threads = 0;
};

class ModelDiff {
public:
  /// `exact` computes the same layers. Throws Error if the reference is of another text, or if its
  /// stages do not name which of several layers they belong to.
  ModelDiff(OpenedModel& model, ReferenceFiles files, DiffRequest request, ExactPass exact);
  /// For a lone layer.
  ModelDiff(ReferenceFiles files, DiffRequest request);

  /// The requested stages that the reference has of a layer, in the reading that the numbers
  /// support. Throws Error for a lone layer without any.
  Reference read(const LoadedLayer& loaded, Effort& effort);
  /// Compares the layer with the reference read for it, which must outlive the result.
  Diff compare(const LoadedLayer& loaded, const Reference& reference);
  /// The outcome of a comparison, added to those of the earlier layers; nothing if the reference
  /// has nothing of the layer.
  std::optional<Outcome> conclude(const LoadedLayer& loaded, const Reference& reference,
                                  Diff& found);
  /// The form of GELU in the reference of a whole model that agrees within half precision. The
  /// other form counts as a difference.
  GeluForms::Verdict form_of_gelu();

  /// Whether this is a whole model on a text.
  bool is_whole() const { return whole_.has_value(); }
  const std::optional<WholeModelOfLayer>& whole() const { return whole_; }
  bool has_lines() const { return is_whole() && model_->chosen().size() > 1; }
  const ReferenceFiles& files() const { return files_; }
  const Coverage& coverage() const { return coverage_; }
  const GeluForms& gelu() const { return gelu_; }
  Verdict verdict() const { return verdict_; }
  /// How many of a mixture's choices of experts are others in the reference, because rounding
  /// decided them. From there on layers are computed from the reference's stream.
  std::size_t other_choices() const { return other_choices_; }
  /// Whether any stage was compared, and whether all compared stages agree.
  bool has_compared_stages() const { return compared_; }
  bool is_equal() const { return equal_; }
  /// Requested stages that the reference has nowhere.
  std::vector<Stage> missing_stages() const;
  /// Sentences on why the verdict does not cover the whole reference.
  std::vector<std::string> missed() const;
  /// Layers of the reference that were not requested and are not part of the verdict.
  std::vector<std::string> other_layers() const;
  /// Notes on how the reference's text was read.
  const std::vector<std::string>& notes() const { return notes_; }

private:
  Layer with_choices(const Layer& own, const Reference& reference);
  Layer ends_with_choices(const Layer& own, const Reference& reference);

  const OpenedModel* model_ = nullptr; ///< null: a lone layer
  ReferenceFiles files_;
  DiffRequest request_;
  std::optional<ExactPass> exact_;
  std::optional<WholeModelOfLayer> whole_;
  std::vector<std::string> notes_;
  bool equal_ = true, compared_ = false, first_layer_ = true;
  std::size_t other_choices_ = 0;
  /// The layer compared last, with the reference's stream, if the reference does not have its
  /// result.
  std::optional<Layer> before_ends_;
  Verdict verdict_ = Verdict::equal;
  StageSet found_; ///< all stages that the reference has
  ReferenceStream stream_;
  std::optional<Tensor> agreed_; ///< the agreed stream after the previous layer
  GeluForms gelu_;
  Coverage coverage_;
  std::vector<std::string> missed_;
};

} // namespace mha
