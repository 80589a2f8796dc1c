#pragma once
// Selections of a part of a stage: --batch, --head, --query, --key.

#include <mha/layer/layer.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha {

/// Chosen positions along one axis, in the order in which they were asked for, none twice.
struct Pick {
  std::vector<std::size_t> indices;
  bool drops_axis = false; ///< one bare index: the axis disappears, as in NumPy
};

/// A comma list of `i`, `a-b` (both ends) and `a:b` or `a:b:step` (as NumPy slices; negative counts
/// from the end).
class IndexList {
public:
  /// `option`, the setting that gives the list, goes into messages. Throws Error for what is no
  /// index list.
  IndexList(std::string text, Message option);
  /// A list of these indices, in their order. Throws Error for none.
  static IndexList of_indices(const std::vector<std::size_t>& indices, Message option);
  /// One position, negative from the end.
  static IndexList of_position(std::int64_t position);
  /// The same, or tokens by their text (" Juliet", "the#2", "the,of,3"), which placed() finds among
  /// labels. Throws Error for digits and signs that are not an index list.
  static IndexList of_tokens(std::string text, Message option);
  /// Whether some of it is a token's text.
  bool names_tokens() const { return names_tokens_; }
  /// The list with each token's text replaced by its position among `labels`; `where` is what they
  /// are labels of ("", "text 2"). A text without a blank before it means the token with one, where
  /// there is none without. Throws Error that lists near tokens, or the places of several.
  IndexList placed(const std::vector<std::string>& labels, std::string_view where = "") const;
  /// The positions on an axis of `count`; `what` names them ("heads"). Throws Error out of range.
  Pick resolve(std::size_t count, std::string_view what) const {
    return resolve(count, what, option_);
  }
  /// The same; `prefix` begins messages instead of the option.
  Pick resolve(std::size_t count, std::string_view what, const Message& prefix) const;
  const Message& option() const { return option_; }
  const std::string& text() const { return text_; }

private:
  struct Range {
    std::optional<std::int64_t> first, last; ///< of a slice: may be open or negative
    std::int64_t step = 1;
    enum class Form { index, both_ends, slice } form = Form::index;
  };
  IndexList() = default;
  std::string text_;
  Message option_;
  std::vector<Range> ranges_;
  bool names_tokens_ = false;
};

/// Every position of a token among labels, in which a blank may be shown as ␣ and a line's end as
/// ⏎; with a blank before it where there is none without.
std::vector<std::size_t> places_of_token(const std::string& word,
                                         const std::vector<std::string>& labels);

/// What a list picks of `count`; everything without one.
Pick resolved(const std::optional<IndexList>& list, std::size_t count, std::string_view what);

/// A selection, the same for every command. Of texts of several lengths the positions are those of
/// the longest chosen one: a lone short text has its own, without the padding after it. An empty
/// member selects everything.
struct Selection {
  std::optional<IndexList> batch, head, query, key;
  bool empty() const { return !batch && !head && !query && !key; }
  /// With the texts of tokens in `query` and `key` replaced by their positions in the layer. Throws
  /// Error where they are at different positions of the chosen batch items.
  Selection placed(const Layer& layer) const;
};

/// One axis of a stage's selected value: which positions, and whether it is there at
/// all.
struct SelectedAxis {
  Axis axis;
  std::size_t count = 0; ///< positions before the selection
  Pick pick;
};

/// The axes of a stage under a selection, batch first (where there is one), in the table's order:
/// the transposition of `columns` is not in it. Key/value heads are those that the chosen query
/// heads read.
std::vector<SelectedAxis> selected_axes(const Layer& layer, Stage stage,
                                        const Selection& selection);

/// The queries, and keys (of all keys, S_all), that a selection chooses of a layer.
Pick chosen_queries(const Layer& layer, const Selection& selection);
Pick chosen_keys(const Layer& layer, const Selection& selection);
/// The chosen batch items of a layer.
Pick chosen_items(const Layer& layer, const Selection& selection);

/// Of the positions on an axis of tokens (T, S, S_all), those that a batch item has: all but its
/// padding, which extra and zero keys follow.
std::vector<std::size_t> own_positions(const Layer& layer, Dim letter, std::size_t batch);

/// A selection for each of several texts of unequal lengths, without the padding after it; the
/// selection itself where there is none. Texts that have none of the chosen queries or keys are
/// left out, unless all are.
std::vector<Selection> without_padding(const Layer& layer, const Selection& selection);
/// Those that are left out.
std::vector<std::size_t> items_without(const Layer& layer, const Selection& selection);

/// Throws Error if the selection names an axis that none of the stages has.
void require_axes(const Layer& layer, const std::vector<Stage>& stages, const Selection& selection);

} // namespace mha
