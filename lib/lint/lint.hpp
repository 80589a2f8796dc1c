#pragma once
// Likely mistakes in a layer, found before anything is computed: one list of checks.

#include <mha/load/load.hpp>
#include <mha/observe/summary.hpp>

#include <span>

namespace mha {

/// A tensor of the layer under its canonical name, as it was read.
struct LintTensor {
  std::string name;   ///< "W_q"
  std::string source; ///< "data/layer.npz: W_q"
  Tensor tensor;
  Summary summary;
};

/// What the checks look at.
struct LintSubject {
  std::vector<LintTensor> tensors;
  const LoadedLayer* loaded = nullptr; ///< nullptr where the layer could not be made
  std::size_t threads = 0;
};

/// Something worth a look: what was found, and what to do.
struct Suspicion {
  std::string_view check; ///< "mask.inverted"
  Message text;
};

/// One check: adds a text for each thing that it finds.
struct Check {
  std::string_view name;
  std::string_view looks_for; ///< in words, for docs
  void (*run)(const LintSubject& subject, std::vector<Message>& texts);
};

/// Every check, in the order in which findings are listed.
std::span<const Check> checks();
std::vector<Suspicion> lint(const LintSubject& subject);

} // namespace mha
