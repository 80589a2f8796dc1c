#pragma once
// Rows of stages as packed bytes, a head at a time, for a page that unpacks heads one by one.

#include <mha/layer/select.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/packing.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace mha {

/// Packs the rows of stages with heads (q, k, v and their forms, maps, head_out) of one batch item.
/// A head is packed once it is complete, so that few heads are in memory unpacked.
class PackedRows : public Observer {
public:
  struct Target {
    Stage stage;
    RowForm form;
  };
  /// `batch` is the item to keep. A stage that packs to more than `limit` bytes is dropped.
  PackedRows(const Layer& layer, const std::vector<Target>& targets, const Selection& selection,
             std::size_t batch, std::size_t limit);

  StageSet wants() const override;
  void observe(const Slice& block) override;

  /// The packed heads of a stage, those selected, in order; nothing if they exceeded the limit.
  std::optional<PackedStage> take(Stage stage);

private:
  struct Head {
    std::string bytes; ///< unpacked while rows are missing, then packed
    std::atomic<std::size_t> missing{0};
  };
  struct Kept {
    RowForm form = RowForm::exact;
    std::size_t rows = 0, cols = 0;
    std::vector<std::size_t> numbers; ///< of the heads
    std::vector<std::unique_ptr<Head>> heads;
    std::atomic<std::size_t> packed{0}; ///< bytes
  };
  template <class T> void observe_as(const Slice& block, Kept& kept);
  std::size_t head_bytes(const Kept& kept) const;

  DType dtype_;
  std::size_t batch_, limit_;
  std::mutex mutex_;
  std::map<Stage, Kept> kept_;
};

} // namespace mha
