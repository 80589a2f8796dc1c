#pragma once
// Likely mistakes in a layer, found before anything is computed: one list of checks.

#include <mha/layer/layer.hpp>
#include <mha/load/load.hpp>
#include <mha/observe/summary.hpp>

#include <span>
#include <string>

namespace mha {

/// A tensor of the layer under its canonical name, before any change.
struct LintTensor {
  std::string name;   ///< "W_q"
  std::string source; ///< "data/layer.npz: W_q"
  Tensor tensor;
  Summary summary;
};

/// The input of the checks.
struct LintSubject {
  std::vector<LintTensor> tensors;
  const LoadedLayer* loaded = nullptr; ///< null if the layer could not be made
  std::size_t threads = 0;
};

/// A likely mistake: what was found, and what to do.
struct Suspicion {
  std::string_view check; ///< "mask.inverted"
  Message text;
};

using LintTexts = std::vector<Message>;

/// A check: adds a text for each mistake that it finds.
struct Check {
  std::string_view name;
  std::string_view looks_for; ///< in words, for docs
  void (*run)(const LintSubject& subject, LintTexts& texts);
};

/// Every check, in the order in which findings are listed.
std::span<const Check> checks();
std::vector<Suspicion> lint(const LintSubject& subject);

/// Describes overflow on the way to the layer's weights ("overflow: 3 of scores are inf (head 0,
/// query 2), …"), or "". Computes nothing if the largest inputs rule it out: |q kᵀ| ≤ d_k · |q| ·
/// |k|, and |q| ≤ d_in · |x| · |W_q| + |b_q|.
Message overflow_of(const Layer& layer, std::size_t threads = 0);

// The checks of masks (lint_masks.cpp).
void find_mask_named_bias(const LintSubject& subject, LintTexts& texts);
void find_inverted_mask(const LintSubject& subject, LintTexts& texts);
void find_masked_rows(const LintSubject& subject, LintTexts& texts);
void find_small_mask_constant(const LintSubject& subject, LintTexts& texts);

} // namespace mha
