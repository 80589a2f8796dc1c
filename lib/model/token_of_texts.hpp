#pragma once
// A token whose logit is followed, which may differ from text to text.

#include <optional>
#include <utility>
#include <vector>

namespace mha {

/// A token for each text: none, one for all of them, or one each.
class TokenOfTexts {
public:
  TokenOfTexts() = default;
  TokenOfTexts(int id) : ids_{id} {}    // NOLINT
  TokenOfTexts(std::optional<int> id) { // NOLINT
    if (id) ids_ = {*id};
  }
  explicit TokenOfTexts(std::vector<int> ids) : ids_(std::move(ids)) {}
  explicit operator bool() const { return !ids_.empty(); }
  std::optional<int> of(std::size_t text) const {
    if (ids_.empty()) return std::nullopt;
    return ids_.size() == 1 ? ids_[0] : ids_.at(text);
  }
  const std::vector<int>& ids() const { return ids_; }

private:
  std::vector<int> ids_;
};

} // namespace mha
