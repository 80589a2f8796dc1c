#pragma once
// map: draws maps of layers; commands/map.cpp declares its options.

#include "figures.hpp"
#include "map_difference.hpp"
#include "output.hpp"
#include <mha/observe/pool.hpp>
#include <mha/render/map_terminal.hpp>

namespace mha::app {

struct MapCommand {
  RunRequest request;
  std::vector<std::string> stages;
  Selection selection;
  OutputOptions output;
  std::string color_map, color_scale, pooling;
  std::optional<double> low, high;
  std::optional<std::size_t> cells;
  bool per_head_range = false, without_sink = false, mean_of_items = false;
  MinusOptions minus;
  FigureOptions figure;
  std::vector<std::string> vocabulary;
  std::optional<std::int64_t> offset;
  Common common;

  int run();

private:
  /// One file and its panels so far.
  struct Picture {
    std::string path;
    render::MapPicture picture;
    render::MapText text;
  };

  void check();
  void check_combined() const;
  /// Whether maps are combined with others: subtracted or averaged.
  bool is_combined() const { return mean_of_items || minus.asked(); }
  bool draws_circuits() const;
  void draw_circuit();
  void refuse_stage_options(bool selects) const;
  void compute_layers(OpenedModel& model);
  void compute_layer(OpenedModel& model, const std::string& id);
  void compute_difference();
  OpenedModel opened_minus();
  Selection batch_chosen(const LoadedLayer& loaded);
  Picture& picture_for(const OpenedModel& model, const LoadedLayer& loaded, Stage stage,
                       const PlannedFile& file);
  Pool::Size size_for(const Picture& picture, const Layer& layer) const;
  void choose_colors();
  void note_sink(std::optional<double> share);
  void note_undrawn(Picture& picture);
  void write(const Picture& picture);

  std::string form_; ///< text, png, svg, pdf
  render::TextStyle text_style_;
  std::vector<Picture> pictures_;
  std::optional<Pool::Size> size_; ///< of every map if a second side is subtracted
  bool sink_is_noted_ = false, undrawn_is_noted_ = false;
};

} // namespace mha::app
