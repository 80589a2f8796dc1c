#include "text_groups.hpp"

#include "layer_options.hpp"
#include "progress.hpp"
#include <mha/load/edit.hpp>

#include <algorithm>

namespace mha::app {

namespace {

/// Throws Error for a text that is too long, before the first one is computed: a run may take
/// hours.
void require_positions(const Texts& texts) {
  const Embedding& embedding = texts.embedding();
  if (embedding.positions.empty()) return;
  const std::size_t rows = embedding.positions.shape()[0] - embedding.first_position;
  for (std::size_t b = 0; b < texts.lengths().size(); ++b)
    if (texts.lengths()[b] > rows)
      fail("text {} has {}, but the model has positions for {}: give a shorter text, or leave it "
           "out",
           b, counted(texts.lengths()[b], "tokens"), rows);
}

} // namespace

TextGroups::TextGroups(const Texts& texts, std::size_t most_tokens, std::size_t layers,
                       const Common& common)
    : texts_(texts) {
  require_positions(texts);
  std::size_t longest = 0;
  for (std::size_t b = 0; b < texts.lengths().size(); ++b) {
    longest = std::max(longest, texts.lengths()[b]);
    if (!starts_.empty() && (b + 1 - starts_.back()) * longest <= most_tokens) continue;
    starts_.push_back(b);
    longest = texts.lengths()[b];
  }
  starts_.push_back(texts.lengths().size());
  if (!common.quiet && common.progress) show_progress(count() * layers);
}

TextGroup TextGroups::group(std::size_t n) const {
  const std::size_t first = starts_[n];
  return {first,
          std::make_shared<const Texts>(texts_, first, starts_[n + 1] - first, "--text", true)};
}

Common common_of_group(Common common, bool first) {
  common.progress = false;
  if (!first) common.quiet = true;
  return common;
}

void copy_times(Common& common, const Common& own) {
  common.read_s = own.read_s, common.compute_s = own.compute_s, common.weights = own.weights;
}

std::string patch_across_texts(const RunRequest& request) {
  for (const std::string& typed : typed_patches(request))
    if (parse_edit(typed).value.is_of_runs()) return typed;
  return "";
}

void require_own_patches(const RunRequest& request, std::string_view option) {
  if (const std::string typed = patch_across_texts(request); !typed.empty())
    fail("--patch '{}': {} computes some texts at a time, but this value needs all of them or "
         "others; give a number or a file",
         typed, option);
}

} // namespace mha::app
