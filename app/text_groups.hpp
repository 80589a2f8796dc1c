#pragma once
// Many texts, some at a time: memory holds those that are computed together.

#include "options.hpp"
#include <mha/model/texts.hpp>

namespace mha::app {

/// Texts that are computed together.
struct TextGroup {
  std::size_t first = 0; ///< the number of the first one
  std::shared_ptr<const Texts> texts;
};

/// Texts in groups, in their order. A text has the bits that it has alone, so that no result
/// depends on how they are grouped.
class TextGroups {
public:
  /// Groups of at most `most_tokens` tokens, padding included, or of one text. A bar shows how far
  /// `layers` layers of each are.
  TextGroups(const Texts& texts, std::size_t most_tokens, std::size_t layers, const Common& common);
  /// The number of groups.
  std::size_t count() const { return starts_.size() - 1; }
  TextGroup group(std::size_t n) const;

private:
  const Texts& texts_;
  std::vector<std::size_t> starts_; ///< of each group, and the number of texts
};

/// Tokens of a group whose heads are measured, padding included.
inline constexpr std::size_t most_of_heads = 4096;

/// For reading a layer of a group: notes are about the texts or the weights, and those of the first
/// group are those of all; the bar is of all groups.
Common common_of_group(Common common, bool first);
/// The times of reading it, back to those of all.
void take_times(Common& common, const Common& own);

/// The first patch whose value is of all texts, or of others; "" where there is none.
std::string patch_of_all(const RunRequest& request);
/// Throws Error for patches whose values are of all texts or of others: a group has not got them.
void require_own_patches(const RunRequest& request, std::string_view option);

} // namespace mha::app
