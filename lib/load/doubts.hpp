#pragma once
// Tensors of the files that have no name of a layer's: which of them are clearly a part of it.

#include <mha/files/contents.hpp>
#include <mha/naming/spelling.hpp>
#include <mha/load/assemble.hpp>
#include <mha/load/identities.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mha {

/// A tensor that was not understood.
struct UnknownTensor {
  std::string file, name;
  Shape shape;
  DType dtype = DType::f32;
  std::string layer = {}; ///< whose it is, where there are several
};

/// How a binding of it is typed, for a shell: "W_q=layer.npz:Q_proj@OI"; where its name says the
/// layer, for all of them: "'W_q=model.npz:layers.{layer}.Q_proj@OI'".
std::string binding(std::string_view name, const UnknownTensor& stranger, std::string_view axes);

/// What unknown names may have been meant to be. Every layer of a checkpoint meets the same ones,
/// and hundreds of known names are compared with each: once.
class Guesses {
public:
  struct Guess {
    Message text;  ///< the name with what it may have been meant to be
    bool doubtful; ///< whether there is such a guess
  };
  const Guess& of(const std::string& name);
  /// The name that it is a slip of, if that is clear.
  const std::optional<Misspelt>& meant(const std::string& name);

private:
  std::map<std::string, std::optional<Misspelt>> meant_;
  std::map<std::string, Guess> known_;
};

/// Throws Error for a tensor whose name clearly means a part of the layer that is not there
/// (`Q_proj` beside no W_q, which is none of `identities` either), with the name that is understood
/// and the bindings of all such tensors, unless `refuses` is false. The others are passed over: one
/// note a file, a warning where a name is near to one that is known.
void judge_unknown_tensors(const std::vector<UnknownTensor>& unknown_tensors,
                           const NamedTensors& parts, const Identities& identities, bool refuses,
                           Guesses& guesses, std::vector<Note>& notes);

/// Adds the matrices of a graph without a layer where any of its constants is bound, but for those
/// that are.
void add_other_constants(
    const io::Contents& graph,
    const std::function<bool(const io::Contents& file, const io::Entry& entry)>& is_bound,
    std::vector<UnknownTensor>& unknown_tensors);

/// "; X, (T, 64), is the input: X=hidden.npz:layers.1 (33, 64) could be it": the tensors of the
/// files whose shape fits an input of `width`, those of layer `id` before others; without any, how
/// to give one.
Message inputs_among(const std::vector<const io::Contents*>& files, const std::string& id,
                     std::size_t width);

} // namespace mha
