#pragma once
// Logits of one part of a model: a stage, or a vector, read by the unembedding alone.

#include <mha/layer/stage_place.hpp>
#include <mha/model/run.hpp>
#include <mha/observe/prediction_rows.hpp>

#include <optional>
#include <vector>

namespace mha {

/// How a part goes through the last norm.
enum class PartNorm : std::uint8_t {
  own,    ///< a stage of the stream, with its own statistics: the logit lens (nostalgebraist 2020)
  frozen, ///< a part of the stream, with the run's statistics at its position, as direct effects
  gain,   ///< a vector without a position: centring and gain alone, so that order and sign mean
          ///< something and size does not
};

/// The logits of one part at one position.
struct PartLogits {
  TextPosition at;
  std::optional<std::size_t> head;
  std::vector<double> logits; ///< of every token; of a part, what it adds to them
};

/// What a stage of a layer ("layers.3.head_result[5]", "layers.2.mlp_out", "embed") adds to the
/// logits at some positions. Throws Error for a stage that has not the stream's width, a block
/// that normalises the sum, and a model without a linear head.
std::vector<PartLogits> part_logits(const TextLayers& layers, const StagePlace& place,
                                    const std::vector<TextPosition>& positions,
                                    std::size_t threads);
/// Which norm that stage's logits have.
PartNorm norm_of_part(const StagePlace& place);

/// What a vector of d_model numbers would add, through the centring and gain of the last norm
/// alone.
std::vector<double> vector_logits(const TextLayers& layers, const Tensor& vector);

} // namespace mha
