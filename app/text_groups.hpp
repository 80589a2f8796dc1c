#pragma once
// Many texts are computed in groups: only one group is in memory at a time.

#include "options.hpp"
#include <mha/model/texts.hpp>

namespace mha::app {

/// Texts that are computed together.
struct TextGroup {
  std::size_t first = 0; ///< the index of the first one
  std::shared_ptr<const Texts> texts;
};

/// Divides texts into groups, in order. Results do not depend on the grouping: a text has the same
/// bits as when computed alone.
class TextGroups {
public:
  /// Groups of at most `most_tokens` tokens, padding included, or of one text. A progress bar shows
  /// the progress through `layers` layers of each.
  TextGroups(const Texts& texts, std::size_t most_tokens, std::size_t layers, const Common& common);
  /// The number of groups.
  std::size_t count() const { return starts_.size() - 1; }
  TextGroup group(std::size_t n) const;

private:
  const Texts& texts_;
  std::vector<std::size_t> starts_; ///< index of each group's first text, and the number of texts
};

/// The most tokens in a group whose heads are measured, padding included.
inline constexpr std::size_t most_tokens_by_head = 4096;

/// Options for reading a layer of a group. Only the first group prints notes, because these concern
/// the weights or all texts; the progress bar belongs to all groups.
Common common_of_group(Common common, bool first);
/// Copies the times of a group back to those of the command.
void copy_times(Common& common, const Common& own);

/// The first patch whose value depends on all texts or on other texts, or "".
std::string patch_across_texts(const RunRequest& request);
/// Throws Error for a patch whose value depends on texts outside a group.
void require_own_patches(const RunRequest& request, std::string_view option);

} // namespace mha::app
