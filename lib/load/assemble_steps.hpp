#pragma once
// The steps of assembling a layer, in files of their own. Masks are in masks.hpp.

#include <mha/load/assemble.hpp>

namespace mha {

/// Splits W_kv_a (d_model, r_kv + d_pe) and b_kv_a (r_kv + d_pe) into the latent's W_c_kv, b_c_kv
/// and the rotary key's W_k_pe, b_k_pe. Splits W_kv_b (r_kv, heads · (d_k − d_pe + d_v)) into W_k
/// and W_v; W_k has zeros in the d_pe columns of the rotary key, which all heads share. Does
/// nothing for attention that is not latent. Throws Error if a tensor is missing or has another
/// shape.
void split_latent_weights(NamedTensors& tensors, const Settings& settings, std::size_t heads);

/// Takes positions, rope_short_factor, rope_long_factor, relative_bias and relative_key out of
/// `parts`, into the layer whose sizes are known. Throws Error for one that does not fit them.
void take_positions(NamedTensors& parts, Layer& layer, std::vector<Note>& notes);

/// Takes the lists of text in a file: labels of tokens; others are skipped with a note. Throws
/// Error for text where a tensor's numbers belong.
void read_labels(const io::Contents& file, Labels& labels, std::vector<Note>& notes);

/// Puts the labels into the layer, whose sizes are known: as many as there are queries or keys, of
/// every item; a shorter item's are filled up with empty ones. Throws Error where they do not fit.
void take_labels(Labels labels, Layer& layer, std::vector<Note>& notes);

/// Throws Error for a setting that does not fit; `head_source` is the tensor that d_k is from,
/// `output_source` the one that the output's width is from. `notes` gets a line for every option
/// that changes nothing.
void check_settings(const Layer& layer, const std::string& head_source,
                    const std::string& output_source, std::vector<Note>& notes);

} // namespace mha
