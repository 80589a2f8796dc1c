#pragma once
// diff of a model's layers, one after the other, or of lone ones: what each of them shows is added
// up.

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

/// What is asked of a comparison.
struct DiffRequest {
  std::vector<Stage> stages; ///< by name; none: all that the reference has
  Tolerances tolerances;
  bool every_stage = false; ///< is compared with float64, not those that differ alone
  std::size_t threads = 0;
};

class ModelDiff {
public:
  /// `exact`: of the same layers. Throws Error where the reference is of another text, or its
  /// stages do not say of which of several layers they are.
  ModelDiff(OpenedModel& model, ReferenceFiles files, DiffRequest request, ExactPass exact);
  /// Of a lone layer.
  ModelDiff(ReferenceFiles files, DiffRequest request);

  /// What the reference has of a layer, as the numbers say that it is to be read: of the stages
  /// that were asked for, those that it has at all. Throws Error for a lone layer without one.
  Reference read(const LoadedLayer& loaded, Effort& effort);
  /// The layer beside the reference that was read for it, which must outlive the result.
  Diff compare(const LoadedLayer& loaded, const Reference& reference);
  /// What the comparison comes to, beside the layers before it; nothing where the reference has
  /// nothing of the layer.
  std::optional<Outcome> conclude(const LoadedLayer& loaded, const Reference& reference,
                                  Diff& found);
  /// What of a whole model that agrees within half precision says which form of GELU it has; the
  /// other form is a difference.
  GeluForms::Verdict form_of_gelu();

  /// A whole model's pass, from a text on; of several of its layers a line each is shown.
  bool is_whole() const { return whole_.has_value(); }
  const std::optional<WholeModelOfLayer>& whole() const { return whole_; }
  bool has_lines() const { return is_whole() && model_->chosen().size() > 1; }
  const ReferenceFiles& files() const { return files_; }
  const Coverage& coverage() const { return coverage_; }
  const GeluForms& gelu() const { return gelu_; }
  Verdict verdict() const { return verdict_; }
  /// Whether some stage was compared; whether all that were agree.
  bool is_of_some() const { return compared_; }
  bool is_equal() const { return equal_; }
  /// Those asked for that the reference has nowhere.
  std::vector<Stage> missing_stages() const;
  /// Why the verdict is not on all of the reference, a sentence each.
  std::vector<std::string> missed() const;
  /// Layers that the reference has and were not asked for: they are no part of the verdict.
  std::vector<std::string> other_layers() const;
  /// How the reference's text was read.
  const std::vector<std::string>& notes() const { return notes_; }

private:
  const OpenedModel* model_ = nullptr; ///< null: a lone layer
  ReferenceFiles files_;
  DiffRequest request_;
  std::optional<ExactPass> exact_;
  std::optional<WholeModelOfLayer> whole_;
  std::vector<std::string> notes_;
  bool equal_ = true, compared_ = false, first_layer_ = true;
  Verdict verdict_ = Verdict::equal;
  StageSet found_; ///< of the stages asked for
  ReferenceStream stream_;
  std::optional<Tensor> agreed_; ///< what the layer before hands on
  GeluForms gelu_;
  Coverage coverage_;
  std::vector<std::string> missed_;
};

} // namespace mha
