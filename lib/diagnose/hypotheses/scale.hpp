#pragma once
// Scales by number: what a fit finds is said with these.

#include <mha/diagnose/hypotheses/change.hpp>

namespace mha {

/// The scores are multiplied by another number; `shown` is what the setting takes, `expression` its
/// words.
Change scale_change(const Layer& layer, std::string id, double scale, std::string_view shown,
                    std::string_view expression);

/// A scale that people take, and its expression: "1/√d_k".
struct NamedScale {
  double value;
  std::string name;
};
/// The first that is as `near` a fitted one, relative to it; nothing where none is.
std::optional<NamedScale> named_scale(const Layer& layer, double scale, double near);

} // namespace mha
