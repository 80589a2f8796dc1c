#pragma once
// Prepares the weights of multi-head latent attention for the forward pass.

#include <mha/load/assemble.hpp>

namespace mha {

/// Splits W_kv_a (d_model, r_kv + d_pe) and b_kv_a (r_kv + d_pe) into the latent's W_c_kv, b_c_kv
/// and the rotary key's W_k_pe, b_k_pe. Splits W_kv_b (r_kv, heads · (d_k − d_pe + d_v)) into W_k
/// and W_v; W_k has zeros in the d_pe columns of the rotary key, which all heads share. Does
/// nothing for attention that is not latent. Throws Error if a tensor is missing or has another
/// shape.
void split_latent_weights(NamedTensors& tensors, const Settings& settings, std::size_t heads);

} // namespace mha
