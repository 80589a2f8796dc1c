#pragma once
// From token numbers to what enters the first block.

#include <mha/layer/block.hpp>

namespace mha {

/// embed = norm(scale · token + position + type), of narrower tables with a linear map at
/// `projection_place`: (B, T, d_model) in `dtype`, f32 or f64, for `ids`
/// of B texts of T tokens; zeros after the `lengths` of texts, where these are given. Throws Error
/// for a number beyond the vocabulary, and for more tokens than there are positions.
Tensor embed(const Embedding& embedding, const std::vector<std::vector<int>>& ids, DType dtype,
             const std::vector<std::size_t>& lengths = {});

/// The tokens' embeddings for layer `number`, (B, T, d_layer) in the type of `embedded`, which is
/// what enters the first block; zeros after the `lengths` of texts, where these are given. Throws
/// Error for a number beyond the table.
Tensor embed_for_layer(const LayerEmbedding& embedding, std::size_t number,
                       const std::vector<std::vector<int>>& ids, const Tensor& embedded,
                       const std::vector<std::size_t>& lengths = {});

/// The embedding whose table of tokens is B texts of vectors, (B · T, N), with `first`, (P,
/// d_model), in front of each: (B · (P + T), d_model) in `dtype`. The vectors are scaled and, where
/// the map is applied before the tables, mapped. Without `first` it is the embedding itself.
Embedding embedding_after(const Embedding& embedding, std::size_t B, const Tensor& first,
                          DType dtype);

} // namespace mha
