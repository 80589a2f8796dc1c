#pragma once
// Asking for parts of a layer in different ways, and the same parts cut out of what was kept whole.

#include "support/random_layer.hpp"
#include <mha/files/writer.hpp>
#include <mha/observe/trace.hpp>

#include <map>
#include <mutex>

/// A file in memory that complains where an element is written twice or never.
class MemoryWriter : public mha::io::Writer {
public:
  explicit MemoryWriter(std::vector<mha::io::Item> items);
  void write(std::size_t item, std::size_t offset, const std::byte* data,
             std::size_t count) override;
  void finish() override;
  const mha::Tensor& item(std::size_t i) const { return tensors_[i]; }

private:
  std::vector<mha::Tensor> tensors_;
  std::vector<std::vector<bool>> written_;
  std::mutex mutex_;
};

/// Some stages, and which part of them.
struct Asked {
  std::vector<mha::Stage> stages;
  mha::Selection selection;
  std::string description;
};
/// Up to three of the stages, with indices on some of the axes that they have.
Asked random_request(Random& random, const mha::Layer& layer,
                     const std::vector<mha::Stage>& stages);

/// What a selection leaves of a stage's whole value.
mha::Tensor cut(const mha::Layer& layer, mha::Stage stage, const mha::Selection& selection,
                const mha::Tensor& whole);
/// Streamed through a Dump, by stage.
std::map<mha::Stage, mha::Tensor> streamed(const mha::Layer& layer, const Asked& asked,
                                           std::size_t threads);
