#pragma once
// Tensors that are not the stage of their name: by their shape other stages or parts of one, or in
// another order, or before a factor.

#include <mha/files/contents.hpp>
#include <mha/layer/layer.hpp>

#include <optional>
#include <string>

namespace mha {

struct ReferenceStage;

/// A tensor read by its shape instead of its name.
struct OtherReading {
  Stage stage;
  io::Entry entry;            ///< in a shape that fits the stage
  std::string how;            ///< "of head width: head_out"
  bool mean_of_heads = false; ///< weights that a module may have averaged over the heads
  bool one_of_heads = false;  ///< one head's numbers, or the heads' mean, copied to each head
};

/// An output of head width is head_out (flash kernels have no other output). A stage without its
/// axis of heads belongs to one head; weights may also be the mean over heads that
/// nn.MultiheadAttention returns. Row values may have columns of padding up to a multiple of 128.
/// Nothing if none of these fits.
std::optional<OtherReading> other_reading(const Layer& layer, Stage stage, const io::Entry& entry);

/// The head whose numbers are nearest to the reference's; nothing if the mean over the heads is
/// nearer.
std::optional<std::size_t> nearest_head(const Layer& layer, const ReferenceStage& reference,
                                        const Tensor& ours);
/// The stage with this head's numbers only, the others not saved.
Tensor of_head_alone(const Layer& layer, Stage stage, const Tensor& value, std::size_t head);

/// Each row's rotated pairs in the other order: neighbours (2j, 2j + 1) as halves (j, j + n/2), or
/// back, as converters to GGUF permute LLaMA's rows.
Tensor with_other_pairs(const Tensor& value, const Settings& settings);
/// Multiplies a stage that a module returns before a factor; the numbers without it remain another
/// reading.
void multiply(ReferenceStage& stage, double factor, const std::string& name);

/// The layer's stage in the form of the reference: with the mean over heads in each head's place if
/// the reference has the mean, else unchanged.
Tensor as_saved(const ReferenceStage& reference, const Tensor& ours);

} // namespace mha
