#pragma once
// Multi-head latent attention's tensors, as the forward pass wants them.

#include <mha/load/assemble.hpp>

namespace mha {

/// Splits W_kv_a and b_kv_a (d_model, r_kv + d_pe) into W_c_kv and W_k_pe, and W_kv_b (r_kv, per
/// head d_k − d_pe and d_v) into W_k, with zeros in the columns of the shared part, and W_v. Does
/// nothing for another attention. Throws Error for parts that do not fit or are missing.
void split_latent_weights(NamedTensors& tensors, const Settings& settings, std::size_t heads);

} // namespace mha
