#pragma once
// Records the names that are read from a checkpoint, so that others can be reported: a setting that
// changes the model, a tensor that is left over.

#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace mha::naming {

/// Settings of config.json and tensors by their whole names, for all layers of a file together.
/// Thread-safe.
class Reads {
public:
  using Names = std::set<std::string, std::less<>>;

  /// Records a setting, present or not: "rope_theta", "rope_scaling.factor".
  void ask_setting(std::string_view key);
  /// Records a tensor, present or not.
  void ask_tensor(std::string_view name);
  /// Records a tensor whose numbers are read, or which is skipped with a note.
  void use(std::string_view name);

  /// Records a tensor that is known not to take part in the computation.
  void skip(std::string_view name);

  /// Records a spelling of a size whose value is replaced by that of another spelling.
  void overrule(std::string_view key);

  bool asked_setting(std::string_view key) const;
  bool overruled(std::string_view key) const;
  bool used(std::string_view name) const;
  bool skipped(std::string_view name) const;
  Names settings() const;
  Names tensors() const;

private:
  mutable std::mutex lock_;
  Names settings_, tensors_, used_, skipped_, overruled_;
};

} // namespace mha::naming
