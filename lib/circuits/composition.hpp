#pragma once
// Composition of an earlier head with a later one (Elhage et al. 2021), in Frobenius norms. With
// A = OV of the earlier head, it is ‖A QK‖ / (‖A‖ ‖QK‖) through the later head's queries,
// ‖A QKᵀ‖ / (‖A‖ ‖QK‖) through its keys and ‖A OV‖ / (‖A‖ ‖OV‖) through its values.

#include <mha/circuits/projections.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace mha {

enum class CompositionKind : std::uint8_t { q, k, v };
std::string_view name_of(CompositionKind kind);

/// One pair of heads; the composition is NaN where a matrix is zero.
struct Composition {
  CompositionKind kind = CompositionKind::q;
  std::string layer, to_layer; ///< of the earlier and of the later head
  std::size_t head = 0, to_head = 0;
  double value = 0;
  /// Its root mean square if the matrices had random directions: 1/√d_model.
  double random = 0;
};

/// The factors of a layer for composition: R_v W_o of each head, (d_v, d_model), in place of A, and
/// W_q R_kᵀ, W_k R_qᵀ, W_v R_oᵀ, (d_model, d_k or d_v), side by side. Their products have the norms
/// of the products of whole matrices.
struct ComposedLayer {
  std::string layer;
  std::size_t heads = 0, width = 0;
  DenseMatrix writes;                            ///< A of the heads, one below another
  std::array<DenseMatrix, 3> reads;              ///< by CompositionKind, or empty
  std::vector<double> written;                   ///< ‖A‖ of each head
  std::array<std::vector<double>, 3> read_norms; ///< ‖QK‖, ‖QK‖, ‖OV‖
};
/// Throws Error if LAPACK is missing, or the layer reads and writes streams of different widths.
ComposedLayer composed(const LayerProjections& layer, std::size_t threads);

/// The compositions of every head of an earlier layer (in the given order) with every head of a
/// later one, by kind, earlier head, later head. The same bits for any number of threads.
std::vector<Composition> compositions(const std::vector<ComposedLayer>& layers,
                                      const std::vector<CompositionKind>& kinds,
                                      std::size_t threads);

} // namespace mha
