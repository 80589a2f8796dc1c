#pragma once
// Composition of an earlier head with a later one (Elhage et al. 2021): with A = OV of
// the earlier one, ‖A QK‖ / (‖A‖ ‖QK‖) through its queries, ‖A QKᵀ‖ / (‖A‖ ‖QK‖) through its keys
// and ‖A OV‖ / (‖A‖ ‖OV‖) through its values; Frobenius norms.

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
  /// √E of its square where the same matrices stand at random to each other: 1/√d_model.
  double random = 0;
};

/// What of a layer composition needs: A of each head by its singular factor, (d_v, d_model), and
/// W_q R_kᵀ, W_k R_qᵀ, W_v R_oᵀ, (d_model, d_k or d_v), side by side, whose products have the norms
/// of those of the whole matrices.
struct ComposedLayer {
  std::string layer;
  std::size_t heads = 0, width = 0;
  DenseMatrix writes;                            ///< A of the heads below each other
  std::array<DenseMatrix, 3> reads;              ///< by CompositionKind; empty where there is none
  std::vector<double> written;                   ///< ‖A‖ of each head
  std::array<std::vector<double>, 3> read_norms; ///< ‖QK‖, ‖QK‖, ‖OV‖
};
/// Throws Error where LAPACK is missing, or the layer does not write what it reads.
ComposedLayer composed(const LayerProjections& layer, std::size_t threads);

/// Every pair of a head of an earlier layer (in the order given) and one of a later layer, in the
/// order of kinds, earlier heads, later heads. The same bits whatever the threads.
std::vector<Composition> compositions(const std::vector<ComposedLayer>& layers,
                                      const std::vector<CompositionKind>& kinds,
                                      std::size_t threads);

} // namespace mha
