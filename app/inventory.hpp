#pragma once
// Inventory of the files and of the layer that they make: what `info` prints.

#include <mha/lint/lint.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/summary.hpp>
#include <mha/render/text.hpp>

namespace mha::app {

struct Inventory {
  struct Item {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::optional<Summary> range; ///< none with --headers
    std::string type = {};        ///< of a file's blocks ("Q4_K"); "" where it stores dtype
  };
  struct File {
    std::string name, format;
    std::vector<Item> tensors;
    std::vector<std::pair<std::string, std::string>> scalars;
    std::vector<std::pair<std::string, std::size_t>>
        labels;                     ///< name and length of each list of labels
    std::vector<std::string> notes; ///< on contents that are not tensors
  };
  struct Setting {
    std::string name, value, origin; ///< origin "": the value is the default
  };
  /// A tensor of the layer by its canonical name, and where it comes from.
  struct SourceTensor {
    Item item;
    std::string source;
  };
  /// A layer of the files; with its sizes where several are listed and without --headers.
  struct LayerRow {
    LayerListing listing;
    std::optional<Dims> dims;
    DType dtype = DType::f32;
  };
  std::vector<File> files;
  std::vector<LayerRow> layers;
  // Of the chosen layer, where there is one and it could be made:
  std::string id, naming, headline;
  std::vector<SourceTensor> tensors;
  std::vector<Setting> settings;
  std::vector<std::pair<std::string, Shape>> stages; ///< that the layer has
  std::string missing_X; ///< of a layer without X: what could be its input
  std::string reason;    ///< why no layer could be made; "" of one that was
  std::vector<Note> notes;
  std::vector<Suspicion> findings; ///< of lint; none with --headers
};

/// Opens the sources with the chosen layer; where the choice of one of several layers is missing,
/// with all layers, and `reason` becomes the message of that error. Throws Error for other errors.
OpenedModel open_one_or_all(const RunRequest& request, std::string& reason);

/// Opens the sources and lists them; with `ranges` the tensors are read, too. Throws Error for a
/// broken file, not for files that make no layer.
Inventory take_inventory(const RunRequest& request, bool ranges, std::size_t threads);

/// One of `render::result_forms`: the files, the layers and what the chosen layer is made of; as
/// lines (CSV, NDJSON) the tensors of the chosen layer, else those of the files.
std::string inventory_text(const Inventory& inventory, std::string_view form,
                           const render::TextStyle& text_style);

} // namespace mha::app
