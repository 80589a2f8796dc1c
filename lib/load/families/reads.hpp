#pragma once
// Names that a family's reading asks a checkpoint for. Others are noted: a setting that changes
// the model, a tensor that is left over.

#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace mha::naming {

/// Settings of config.json and tensors, by their whole names; of all layers of a file together.
/// Thread-safe.
class Reads {
public:
  using Names = std::set<std::string, std::less<>>;

  /// A setting, whether it is there or not: "rope_theta", "rope_scaling.factor".
  void ask_setting(std::string_view key);
  /// A tensor, whether it is there or not.
  void ask_tensor(std::string_view name);
  /// A tensor whose numbers are taken, or which a note says is passed over.
  void use(std::string_view name);

  /// A tensor that is known to be no part of what is computed.
  void pass_over(std::string_view name);

  /// A size's spelling whose value another spelling's takes the place of.
  void overrule(std::string_view key);

  bool asked_setting(std::string_view key) const;
  bool overruled(std::string_view key) const;
  bool used(std::string_view name) const;
  bool passed_over(std::string_view name) const;
  Names settings() const;
  Names tensors() const;

private:
  mutable std::mutex lock_;
  Names settings_, tensors_, used_, passed_over_, overruled_;
};

} // namespace mha::naming
