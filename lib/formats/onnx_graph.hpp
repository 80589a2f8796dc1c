#pragma once
// A graph that is kept beside what was read of it, so that a whole model can be held against it.

#include <mha/formats/onnx_layers.hpp>

#include <algorithm>
#include <memory>

namespace mha::io {

struct KeptGraph {
  std::shared_ptr<const OnnxModel> model;
  std::shared_ptr<OnnxStore> store;
  /// Its weights under the paths of their modules, as checkpoints have them: where an exporter left
  /// one anonymous, "model.layers.0.mlp.up_proj.weight", (out, in), is what the node
  /// /model/layers.0/mlp/up_proj/MatMul multiplies by.
  std::vector<Entry> parameters = {};

  /// Whether a tensor of the file is a module's by its path; others are constants of steps.
  bool is_of_module(const Entry& tensor) const {
    return tensor.name.find('.') != std::string::npos &&
           std::ranges::any_of(parameters, [&](const Entry& one) {
             return one.name_in_file() == tensor.name_in_file();
           });
  }

  /// What it computes for texts of this length.
  std::shared_ptr<OnnxFlow> flow(std::int64_t length, std::int64_t texts = 1,
                                 bool padded = false) const {
    return std::make_shared<OnnxFlow>(model, *store, length, texts, padded);
  }
};

/// The layer whose Softmax or operator a step is; nothing where it is none.
std::optional<std::variant<OnnxLayer, OnnxRefusal>>
onnx_layer_at(const std::shared_ptr<const OnnxFlow>& flow, const OnnxProjections& projections,
              int step);

/// What holds for one short text may not for another: a slice as long as the text, a mask that is
/// causal for a few rows. Two texts of another length, whose last positions are hidden where the
/// graph has a mask among its inputs, are to be the same layer; and a long one is to hide as much.
class OnnxOtherLengths {
public:
  explicit OnnxOtherLengths(const OnnxFlow& flow) : flow_(flow) {}

  /// Why the layer of a Softmax or an operator is none for other lengths; "" where it is. A window
  /// that only a long text shows is set.
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
