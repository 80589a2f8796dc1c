#pragma once
// Which form of GELU a reference in half precision has. By erf and by tanh differ by less than its
// rounding of any one number: over all of them the difference goes one way, or it does not.

#include <mha/compare/reference.hpp>
#include <mha/diagnose/hypotheses/change.hpp>

#include <optional>
#include <string>

namespace mha {

/// Counts what the layers of a model that agree within rounding say of its form of GELU.
class GeluForms {
public:
  enum class Verdict {
    not_asked, ///< no GELU, or no reference in half precision
    own,       ///< the layers' own form
    other,     ///< the other one
    open,      ///< not decidable: the reference rounds more than the forms differ
  };

  /// Adds a layer and its reference, or those of the model's ends. `stream`: whether the layer
  /// stands on the reference's own stream; a step behind it tells nothing otherwise, unless the
  /// reference has what enters the feed-forward.
  void add(const Layer& layer, const Reference& reference, bool stream, std::size_t threads);

  Verdict verdict() const;
  /// What is said of the verdict `other` or `open`, in a sentence.
  std::string sentence() const;
  /// The other form as a cause, for a layer of the model; the verdict is `other`.
  Change cause() const;

private:
  double share() const { return along_ / weight_; }
  double spread() const;

  std::optional<Activation> form_; ///< the model's
  std::optional<DType> half_;      ///< the reference's
  /// The other form's share of the differences, summed by how sure each is; of those sums.
  double along_ = 0, weight_ = 0;
};

} // namespace mha
