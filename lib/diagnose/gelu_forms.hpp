#pragma once
// Finds the form of GELU of a reference in half precision. The forms by erf and by tanh differ by
// less than the rounding of a single number, but over all numbers the difference is visible.

#include <mha/compare/reference.hpp>
#include <mha/diagnose/hypotheses/change.hpp>

#include <optional>
#include <string>

namespace mha {

/// Collects the evidence for the form of GELU from the layers of a model that agree within
/// rounding.
class GeluForms {
public:
  enum class Verdict {
    not_asked, ///< no GELU, or a reference that is not in half precision
    own,       ///< the layers' own form
    other,     ///< the other one
    open,      ///< not decidable: the reference rounds more than the forms differ
  };

  /// Adds a layer and its reference, or those of the model's ends. `stream`: whether the layer is
  /// computed from the reference's own stream. If not, the layer counts only if the reference has
  /// the input of the feed-forward.
  void add(const Layer& layer, const Reference& reference, bool stream, std::size_t threads);

  Verdict verdict() const;
  /// A sentence for the verdict `other` or `open`.
  std::string sentence() const;
  /// The other form as a cause of a layer's difference; the verdict must be `other`.
  Change cause() const;

private:
  double share() const { return along_ / weight_; }
  double spread() const;

  std::optional<Activation> form_; ///< the model's
  std::optional<DType> half_;      ///< the reference's
  /// Sums over the layers: the other form's share of the difference times its weight, and the
  /// weights (1 / variance).
  double along_ = 0, weight_ = 0;
};

} // namespace mha
