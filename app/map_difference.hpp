#pragma once
// map A --minus B, and the mean over batch items: maps computed from others, cell by cell.

#include "output.hpp"
#include <mha/render/map.hpp>

namespace mha {
class Patcher;
}

namespace mha::app {

/// The second side of a difference: it differs from the first side only in these options.
struct MinusOptions {
  std::vector<std::string> sources, texts, ids, patches;
  std::string layer;
  std::optional<IndexList> head, batch;
  std::shared_ptr<Patcher> patcher;

  bool asked() const;
  /// The second side's request. Its patches are those of --minus-patch, not the first side's.
  RunRequest request_of(const RunRequest& first) const;
  Selection selection_of(const Selection& first) const;
  /// " − layer 5 head 3", appended to the first side's title.
  std::string title() const;
};
void add_minus(Cli& cli, MinusOptions& minus);

/// Subtracts `other` from the panels one by one; fewer others are used several times. A cell that
/// one side masks counts as 0 there if masked cells of `stage` are zero (weights, exp); otherwise
/// it is masked in the difference. Throws Error if the sizes of maps differ.
void subtract(std::vector<render::MapPanel>& panels, const std::vector<render::MapPanel>& other,
              Stage stage);

/// Whether a difference is 0 in every cell that is not masked.
bool is_zero(const std::vector<render::MapPanel>& difference);

/// The mean of each head's maps over the batch items. A cell's mean is over the items that have it.
std::vector<render::MapPanel> mean_over_items(const std::vector<render::MapPanel>& panels);

/// Writes the cells of panels as one float64 array. A single layer, or a head chosen by a bare
/// index, has no axis. Masked cells are 0 if masked cells of the stage are zero, else NaN.
void write_map_npy(const std::string& path, const std::vector<render::MapPanel>& panels,
                   std::size_t layers, bool one_head, Stage stage);

/// The number of maps in an array, and their size.
struct MapArray {
  std::size_t layers, heads, rows, cols;
};
/// Writes the values of maps, layer after layer, as write_map_npy() does.
void write_map_array(const std::string& path, const std::vector<double>& values, MapArray of,
                     bool one_head);

} // namespace mha::app
