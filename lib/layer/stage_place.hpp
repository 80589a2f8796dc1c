#pragma once
// A place in a model: a stage of some layers, and of it some heads, tokens and columns.

#include <mha/layer/select.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace mha {

/// The layers that a place names first: "layers.3.", "layers.-1.", "layers.0-2.", "layers.*."
struct PlaceLayers {
  bool every_layer = false;                                  ///< layers.*
  std::optional<std::pair<std::size_t, std::size_t>> layers; ///< the first and the last
  std::size_t from_end = 0; ///< 1 of "layers.-1."; 0: counted from the first

  /// Whether the place names a layer.
  bool names_layer() const { return every_layer || layers.has_value() || from_end > 0; }
  bool is_of(std::size_t layer) const {
    return every_layer || (layers && layers->first <= layer && layer <= layers->second);
  }
  /// Counts a layer from the end in a model of `count`. Throws Error where there is none such;
  /// `text` is what was written.
  void count_from_first(std::size_t count, const Message& text);
};

/// What a place's name begins with. Throws Error where it is not a layer; `text` is all that was
/// written.
PlaceLayers layers_of_place(std::string_view place, std::string_view text);

/// Throws Error for a stage of the whole model whose name begins with a layer.
void require_of_model(std::string_view name, Stage stage, const PlaceLayers& named);

/// An axis of a stage in one batch item.
struct ItemAxis {
  const Message& where;              ///< what messages begin with
  std::size_t text = 0;              ///< the batch item
  std::string_view word;             ///< "heads"
  std::vector<std::size_t> own = {}; ///< the positions in the batch that the item has
  std::vector<std::string> labels = {};
  bool differs = false; ///< other items may have others
};

/// One axis of a place: all of it, or positions and tokens by their text.
class AxisPositions {
public:
  ///@{
  /// All; one position; several, negative from the end, of which there is one at least.
  AxisPositions() = default;
  explicit AxisPositions(std::size_t position);
  explicit AxisPositions(const std::vector<std::int64_t>& positions);
  ///@}
  /// As written: *, i, a-b, a:b, 'text', 'text'#1, or a list of these in brackets. Throws Error,
  /// which begins with `where`, for anything else.
  AxisPositions(std::string_view written, const std::string& where);

  bool all() const { return parts_.empty(); }
  const std::string& text() const { return text_; }
  /// The positions of an item, counted in the batch. Throws Error where it has none
  /// such.
  std::vector<std::size_t> of(const ItemAxis& axis) const;

private:
  struct Token {
    std::string word;
    std::optional<std::size_t> which; ///< of several
    std::string text;                 ///< as written
  };
  void add(std::string_view written, const std::string& where);

  std::string text_ = "*";
  std::vector<std::variant<IndexList, Token>> parts_; ///< none: all
};

/// A place, as written: "layers.3.head_out[0,-1]".
struct StagePlace : PlaceLayers {
  std::string name; ///< "layers.3.head_out"
  Stage stage = Stage::output;
  bool prefers_add = false; ///< hook_attn_out, hook_mlp_out: attn_add and mlp_add where there are
  /// Heads, tokens, columns; of stages of chosen experts heads, tokens, chosen, columns. Fewer: the
  /// others are whole.
  std::vector<AxisPositions> axes;

  /// Sets the axes, but for those at the end that mean all.
  void set_axes(std::vector<AxisPositions> of_place);
  /// One of them.
  const AxisPositions& axis(std::size_t number) const;
  /// With its axes, but for those at the end that mean all.
  std::string text() const;
};

/// Throws Error, which begins with `where`, for text that is not a place.
StagePlace parse_place(std::string_view written, const std::string& where, StageNames names);

/// The stage that a place means in a layer: what hook_attn_out is depends on the block.
Stage stage_of_place(const StagePlace& place, const Layer& layer);

/// A place in a layer: of the stage's axes after the batch heads (or none), tokens, columns (or
/// none).
struct PlaceAxes {
  std::vector<std::size_t> heads;
  std::vector<std::vector<std::size_t>> tokens;  ///< of each batch item
  std::vector<std::vector<std::size_t>> columns; ///< of each; one list: of all
  std::size_t chosen = 0; ///< of how many chosen experts, side by side, columns are; 0: of none
  bool with_heads = false, with_columns = false;

  const std::vector<std::size_t>& columns_of(std::size_t batch) const {
    return columns[columns.size() > 1 ? batch : 0];
  }
};

/// Positions of tokens are counted in each text. Throws Error, which begins with `where`, where the
/// layer has no such place.
PlaceAxes axes_of(const StagePlace& place, const Layer& layer, Stage stage, const Message& where);

/// An axis of tokens or of keys of a batch item; of features, whose positions all items share.
ItemAxis axis_of_item(const Message& where, const Layer& layer, Dim letter, std::size_t b);

/// What a patch of a stage changes there.
ResolvedEdit patch_at(const PlaceAxes& place, const Layer& layer, Stage stage);

/// Without the blanks around it.
std::string_view trimmed(std::string_view text);
/// Where the first of these characters is, outside of quotes and brackets.
std::size_t find_outside(std::string_view text, std::string_view any);
/// What is in quotes, of which a doubled one is one: 'it''s'.
std::string unquoted(std::string_view text);

} // namespace mha
