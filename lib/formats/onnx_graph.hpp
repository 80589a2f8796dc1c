#pragma once
// A graph that is kept after its layers are read, so that a whole model can be compared with it,
// and the check of its layers at other lengths.

#include <mha/formats/onnx_layers.hpp>

#include <algorithm>
#include <memory>

namespace mha::io {

struct KeptGraph {
  std::shared_ptr<const OnnxModel> model;
  std::shared_ptr<OnnxStore> store;
  /// The weights under the paths of their modules, as in checkpoints. If an exporter left a weight
  /// anonymous, "model.layers.0.mlp.up_proj.weight", (out, in), is the factor of the node
  /// /model/layers.0/mlp/up_proj/MatMul.
  std::vector<Entry> parameters = {};

  /// Whether a tensor of the file belongs to a module by its path, and is not just a step's
  /// constant.
  bool is_of_module(const Entry& tensor) const {
    return tensor.name.find('.') != std::string::npos &&
           std::ranges::any_of(parameters, [&](const Entry& one) {
             return one.name_in_file() == tensor.name_in_file();
           });
  }

  /// The unfolded graph for texts of this length.
  std::shared_ptr<OnnxFlow> flow(std::int64_t length, std::int64_t texts = 1,
                                 bool padded = false) const {
    return std::make_shared<OnnxFlow>(model, *store, length, texts, padded);
  }
};

/// The layer of a step that is a Softmax or an attention operator; nothing for other steps.
std::optional<std::variant<OnnxLayer, OnnxRefusal>>
onnx_layer_at(const std::shared_ptr<const OnnxFlow>& flow, const OnnxProjections& projections,
              int step);

/// Checks layers of a graph at other lengths, because a graph may depend on the length, such as by
/// a slice as long as the short text or a mask that is causal only for a few rows. Two texts of
/// another length, whose last positions are hidden if the graph has a mask among its inputs, must
/// give the same layer, and a long text must have the same mask.
class OnnxOtherLengths {
public:
  explicit OnnxOtherLengths(const OnnxFlow& flow) : flow_(flow) {}

  /// Why the layer of a Softmax or an operator does not hold for other lengths; "" if it does. Sets
  /// a window that is visible only in a long text.
  std::string refusal(int step, OnnxLayer& layer);

private:
  struct Length {
    std::shared_ptr<OnnxFlow> flow;
    std::unique_ptr<OnnxProjections> projections;
  };
  Length make(std::int64_t length, std::int64_t texts, bool padded) const;
  std::variant<OnnxLayer, OnnxRefusal> read(const Length& at, int step) const;
  const Length* find_far();

  const OnnxFlow& flow_;
  std::vector<Length> others_;
  std::optional<Length> far_;
};

} // namespace mha::io
