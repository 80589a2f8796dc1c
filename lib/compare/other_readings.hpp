#pragma once
// Tensors of another shape than that of the stage whose name they have, as what they are.

#include <mha/files/contents.hpp>
#include <mha/layer/layer.hpp>

#include <optional>
#include <string>

namespace mha {

struct ReferenceStage;

/// What a tensor is by its shape, where that is not its stage's.
struct OtherReading {
  Stage stage;
  io::Entry entry;            ///< in a shape that fits the stage
  std::string how;            ///< "of head width: head_out"
  bool mean_of_heads = false; ///< weights that a module may have averaged
  bool one_of_heads = false;  ///< one head's, or their mean: each head's place has it
};

/// An output of head width is what the heads give (flash kernels have no other). A stage without
/// its axis of heads is one head's; weights may be the heads' mean, as nn.MultiheadAttention hands
/// them out. Row values may have columns of padding up to a multiple of 128. Nothing where none of
/// these fits.
std::optional<OtherReading> other_reading(const Layer& layer, Stage stage, const io::Entry& entry);

/// The head whose numbers those of all places of `reference` are nearest to; nothing where the mean
/// over the heads is nearer, which weights may be.
std::optional<std::size_t> nearest_head(const Layer& layer, const ReferenceStage& reference,
                                        const Tensor& ours);
/// A stage of which this head's numbers alone were saved.
Tensor of_head_alone(const Layer& layer, Stage stage, const Tensor& value, std::size_t head);

/// A stage of the layer, as a reference has it: the mean over the heads in the place of each, where
/// that was saved; else as it is.
Tensor as_saved(const ReferenceStage& reference, const Tensor& ours);

} // namespace mha
