#pragma once
// Layers of a graph held against the same graph for other lengths: private to onnx.cpp.

#include <mha/formats/onnx_layers.hpp>

#include <memory>

namespace mha::io {

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
