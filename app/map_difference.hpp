#pragma once
// map A --minus B, and the mean over batch items: maps made of others, cell by cell.

#include "output.hpp"
#include <mha/render/map.hpp>

namespace mha {
class Patcher;
}

namespace mha::app {

/// What is subtracted: what these options say differs from the first side, all else is the same.
struct MinusOptions {
  std::vector<std::string> sources, texts, ids, patches;
  std::string layer;
  std::optional<IndexList> head, batch;
  std::shared_ptr<Patcher> patcher;

  bool asked() const;
  /// The first side's request with what differs. Its patches are its own: none without
  /// --minus-patch.
  RunRequest request_of(const RunRequest& first) const;
  Selection selection_of(const Selection& first) const;
  /// " − layer 5 head 3", behind the first side's title.
  std::string title() const;
};
void add_minus(Cli& cli, MinusOptions& minus);

/// panels −= other, one by one; of fewer others each is subtracted several times. A cell that one
/// side masks counts as 0 on that side if masked cells of `stage` are zero (weights, exp), else it
/// is masked in the difference. Throws Error for maps of other sizes.
void subtract(std::vector<render::MapPanel>& panels, const std::vector<render::MapPanel>& other,
              Stage stage);

/// Whether a difference is 0 in every cell that is not masked.
bool is_nothing(const std::vector<render::MapPanel>& difference);

/// The mean of each head's maps over the batch items, of those that have the cell.
std::vector<render::MapPanel> mean_over_items(const std::vector<render::MapPanel>& panels);

/// The cells of panels as one array in float64; axes of one layer, and of a head that was chosen by
/// a bare index, are left out. Masked cells are 0 where the stage is, else NaN.
void write_map_npy(const std::string& path, const std::vector<render::MapPanel>& panels,
                   std::size_t layers, bool one_head, Stage stage);

/// Of how many maps an array is, and of what size.
struct MapArray {
  std::size_t layers, heads, rows, cols;
};
/// Values of maps, layer after layer, as an array in float64, as write_map_npy does.
void write_map_array(const std::string& path, const std::vector<double>& values, MapArray of,
                     bool one_head);

} // namespace mha::app
