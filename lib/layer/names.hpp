#pragma once
// The table of the tensors that a layer is made of: names, shapes, meanings, where each is stored
// in the layer. Files, bindings, sizes, replacing, fingerprints, `info`, help and docs/formats.md
// take them from here.

#include <mha/layer/dims.hpp>
#include <mha/layer/stage.hpp>
#include <mha/system/export.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

struct LayerTensors;
class Tensor;

/// What a tensor is to its layer.
enum class TensorRole : std::uint8_t {
  input,     ///< X and its siblings
  packed,    ///< Q, K, V: a stage, its heads side by side
  past,      ///< keys and values from before the input
  mask,      ///< which keys a query sees, or what is added to their scores
  lengths,   ///< how many keys there are
  bias,      ///< a position bias, a number for every query and key
  positions, ///< of the tokens
  weight,    ///< of the model
};

/// A shape that a tensor may have, without its batch axis.
using TensorForm = std::vector<Length>;

/// How a tensor is stored in a layer.
struct InLayer {
  /// nullptr: several tensors are made of it, a mask, or a stage that is given.
  Tensor LayerTensors::*member = nullptr;
  /// The stages whose formulas read it, after which its memory can go; none: it stays.
  StageSet readers = {};
  bool can_be_added = false; ///< to a layer that was made without it
  bool keeps_form = false;   ///< it is stored in the form in which it is given
  bool in_double = false;    ///< float64 whatever the layer's dtype: positions are counted
};

/// One row of the table.
struct TensorInfo {
  ///@{
  /// Its name, what it is, and what else it is called.
  std::string_view name;
  TensorRole role;
  /// The order of its axes, in the letters of bindings: B batch, H head, T query, S key, D width of
  /// one head, C all widths, I in, O out.
  std::string_view axes;
  std::vector<TensorForm> forms; ///< the shapes that it may have
  std::string_view text;
  std::string_view aliases; ///< separated by spaces
  ///@}
  bool turns = false;    ///< its last two axes are exchanged in `columns`
  InLayer in_layer = {}; ///< how it is stored in a layer
  /// What a layer is that has it, where that is not computed: "is a mixture of experts"; of a row
  /// of tensors_of_kinds() "" where other layers also have the name.
  std::string_view kind = {};

  /// Whether a batch axis may precede each of its forms.
  bool has_batch() const {
    return role == TensorRole::input || role == TensorRole::packed || role == TensorRole::past;
  }
  /// The tensor of a layer, const or not; the row has a member.
  template <class L> auto& of(L& layer) const { return layer.*in_layer.member; }
};

/// The names of files and bindings.
MHA_API std::span<const TensorInfo> tensor_names();
/// What a layer holds: the rows with a member, those included that others are split into.
MHA_API std::span<const TensorInfo> layer_tensors();

} // namespace mha
