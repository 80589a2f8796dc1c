#pragma once
// Tensors of the files without a known name: which of them are clearly a part of the layer.

#include <mha/files/contents.hpp>
#include <mha/load/assemble.hpp>
#include <mha/load/identities.hpp>
#include <mha/naming/spelling.hpp>

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
  std::string layer = {}; ///< the layer that it belongs to, where there are several
};

/// How a binding of it is typed in a shell: "W_q=layer.npz:Q_proj@OI"; where its name has the
/// layer's number, for all layers: "'W_q=model.npz:layers.{layer}.Q_proj@OI'".
std::string binding(std::string_view name, const UnknownTensor& unknown, std::string_view axes);

/// Guesses at unknown names, kept because every layer of a checkpoint meets the same names and each
/// is compared with hundreds of known ones.
class Guesses {
public:
  struct Guess {
    Message text;  ///< the name with what it may have been meant to be
    bool doubtful; ///< whether there is such a guess
  };
  const Guess& of(const std::string& name);
  /// The known name that it is a misspelling of, if that is clear.
  const std::optional<Misspelt>& meant(const std::string& name);

private:
  std::map<std::string, std::optional<Misspelt>> meant_;
  std::map<std::string, Guess> known_;
};

/// Throws Error for a tensor whose name clearly means a part of the layer that is missing (`Q_proj`
/// where there is no W_q and `identities` does not name it), with the known name and the bindings
/// of all such tensors, unless `refuses` is false. The others are skipped with one note a file, a
/// warning where a name is close to a known one.
void judge_unknown_tensors(const std::vector<UnknownTensor>& unknown_tensors,
                           const NamedTensors& parts, const Identities& identities, bool refuses,
                           Guesses& guesses, std::vector<Note>& notes);

/// Adds the unbound matrices of a graph without a layer, if any of its constants is bound.
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
