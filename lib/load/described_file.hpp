#pragma once
// Finds the tensors that a description names for one layer of a checkpoint, and presents them as
// entries that are transposed, stacked, multiplied or folded when they are read.

#include <mha/load/described_tensors.hpp>
#include <mha/load/families/description.hpp>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// "transformer.h.0." of "transformer.h.0.attn." and "h"; "" if it is not there.
std::string block_prefix(const naming::Group& group, std::string_view layers);
/// The prefix of the block by the description's layers.
std::string block_prefix(const naming::Group& group, const naming::Description& description);
/// "h" of "h.{layer}.".
std::string_view layers_word(std::string_view layers);
/// "h" of the description's first layer; "" where it has no layers.
std::string_view layers_word(const naming::Description& description);

/// Whether a name below a block is of the feed-forward in a family whose layers may have either a
/// dense one or a mixture.
bool is_of_either_feed_forward(const naming::Description& description, std::string_view name);

/// The end of messages about a model's tensors.
inline const Message give_X_instead = message("give a layer's input instead of a text: <X=FILE>");

class DescribedFile {
public:
  DescribedFile(const naming::Description& description, const naming::Group& group);

  /// The prefixes of a family's block and of the model's other tensors, "transformer.h.0." and
  /// "transformer."; "" where the layer is alone.
  const std::string& block() const { return block_; }
  const std::string& model() const { return model_; }
  /// The whole name of a tensor of `key` that the description calls `name`, without its ending.
  std::string whole_name(std::string_view key, std::string_view name) const;

  /// The entry in the file, by the first of the names a|b that it has; nullptr: it has none.
  const io::Entry* weight(const naming::DescribedTensor& tensor) const;
  const io::Entry* bias(const naming::DescribedTensor& tensor) const;
  const io::Entry* weight(const naming::DescribedNorm& norm) const;
  const io::Entry* bias(const naming::DescribedNorm& norm) const;
  /// A table; models that share the tokens' table have it under another name.
  const io::Entry* table(const naming::DescribedTensor& tensor) const;
  /// Whether the module has a bias: by its own key, else by the rule for its kind.
  naming::Bias biased(const naming::DescribedTensor& tensor) const;

  /// A weight read as (in, out), of heads as (heads, in, out), and the bias of its outputs. Throws
  /// Error where a required one is missing or is stored otherwise.
  io::Entry matrix(const naming::DescribedTensor& tensor) const;
  std::optional<io::Entry> bias_of(const naming::DescribedTensor& tensor) const;
  struct Map {
    io::Entry W;
    std::optional<io::Entry> b;
  };
  Map map(const naming::DescribedTensor& tensor) const { return {matrix(tensor), bias_of(tensor)}; }
  /// The maps of a mixture's experts that are tensors of their own, whose names have {expert}.
  std::vector<Map> maps_of_experts(const naming::DescribedTensor& tensor) const;
  /// A map of the embedding. A convolution of patches that do not overlap becomes a map of a
  /// patch's numbers in the order channels, rows, columns.
  Map embedding_map(const naming::DescribedTensor& tensor) const;
  /// Rows of tokens, positions or types; a single type may be stored as a vector.
  io::Entry rows(const naming::DescribedTensor& tensor) const;
  /// The rows that are prepended to incoming vectors, one below the other.
  io::Entry rows_in_front() const;
  /// Computed rows of positions for a stream of this width (0: not known).
  io::Entry sinusoid(std::size_t width) const;
  /// A tensor in its stored shape, or those of the heads, stacked.
  io::Entry as_stored(const naming::DescribedTensor& tensor) const;

  /// Weight and bias of a norm of `width` numbers (0: any), with a batch norm's statistics folded
  /// in; nothing where it has none, or the layer lacks it.
  struct NormTensors {
    std::optional<io::Entry> weight, bias;
  };
  NormTensors norm(const naming::DescribedNorm& norm, std::size_t width) const;

  /// The width of the stream by the shapes of tensors; nothing where none has it.
  std::optional<std::size_t> stream_width() const;

  /// Throws Error where a bias does not have as many numbers as its map has outputs.
  void require_bias(const naming::DescribedTensor& tensor, const io::Entry& bias,
                    std::size_t expected) const;
  /// Throws Error where an axis has another length than expected (0: any), with the layout that
  /// would fit.
  void require_axis(const naming::DescribedTensor& tensor, const io::Entry& entry, std::size_t axis,
                    std::size_t expected, std::string_view does) const;

private:
  using Endings = std::initializer_list<std::string_view>;
  const io::Entry* find(std::string_view key, std::string_view names, Endings endings) const;
  const io::Entry* above(std::string_view key, const std::string& whole, Endings endings) const;
  const io::Entry& needed(const naming::DescribedTensor& tensor, const io::Entry* entry) const;
  const io::Entry& needed(const std::string& name, const std::string& who) const;
  io::Entry turned(const naming::DescribedTensor& tensor, const io::Entry& entry,
                   const std::string& wanted) const;
  std::vector<io::Entry> of_heads(const naming::DescribedTensor& tensor, const std::string& name,
                                  bool needed) const;
  io::Entry multiplied(const naming::DescribedTensor& tensor, const io::Entry& outputs) const;
  NormTensors batch_norm(const naming::DescribedNorm& norm, const io::Entry* weight,
                         const io::Entry* bias) const;
  std::string bias_name(const naming::DescribedTensor& tensor) const;
  void mark_skipped(std::string_view key, const std::string& name) const;
  void require_rank(const naming::DescribedTensor& tensor, const io::Entry& entry,
                    std::size_t rank) const;
  io::Entry scaled_positions(const io::Entry& rows) const;

  const naming::Description& description_;
  const naming::Group& group_;
  std::size_t layer_ = 0;
  std::string block_, model_;
};

} // namespace mha
