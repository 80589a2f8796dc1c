#pragma once
// Streaming of stages to files while they are computed, so that memory does not grow with T².

#include <mha/files/writer.hpp>
#include <mha/observe/placement.hpp>

#include <map>

namespace mha {

class Dump : public Observer {
public:
  /// One stage goes to one item of a writer.
  struct Target {
    Stage stage;
    std::size_t item = 0;
    std::size_t offset = 0;   ///< of the layer's elements in the item, if layers are stacked
    DType dtype = DType::f32; ///< the type of the file
  };
  /// The writer's items must have the shapes of the placements.
  Dump(const Layer& layer, const std::vector<Target>& targets, const Selection& selection,
       io::Writer& writer);

  StageSet wants() const override;
  std::optional<std::size_t> batch() const override;
  void observe(const Slice& block) override;

  /// How many finite numbers of each stage became infinite by rounding, for stages with any.
  std::map<Stage, std::size_t> overflowed() const;

private:
  struct Destination {
    Placement placement;
    std::size_t item, offset;
    DType from, to;
    std::size_t overflowed = 0;
  };
  io::Writer& writer_;
  std::map<Stage, Destination> destinations_;
};

} // namespace mha
