#pragma once
// Tensors of the files that have no name of a layer's: which of them are clearly a part of it.

#include <mha/files/contents.hpp>
#include <mha/load/assemble.hpp>

#include <string>
#include <vector>

namespace mha {

/// A tensor that was not understood.
struct Stranger {
  std::string file, name;
  Shape shape;
};

/// Throws Error for a tensor whose name clearly means a part of the layer that is not there
/// (`Q_proj` beside no W_q), with the name that is understood, unless `refuses` is false. The
/// others are passed over: one note a file, a warning where a name is near to one that is known.
void judge_strangers(const std::vector<Stranger>& strangers, const NamedTensors& parts,
                     bool refuses, std::vector<Note>& notes);

/// A projection that is absent is the identity only where nothing could have been meant. Throws
/// Error where a tensor that was passed over has the shape of its siblings.
void require_no_other_projection(const std::vector<Stranger>& strangers, const NamedTensors& parts);

/// "; X, (T, 64), is the input: X=hidden.npz:layers.1 (33, 64) could be it": the tensors of the
/// files whose shape fits an input of `width`, those of layer `id` before others; without any, how
/// to give one.
std::string inputs_among(const std::vector<const io::Contents*>& files, const std::string& id,
                         std::size_t width);

} // namespace mha
