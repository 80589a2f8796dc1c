#pragma once
// The inventory that `info` prints: the files, and the layer made from them.

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
  /// A tensor of the layer under its canonical name, and where it comes from.
  struct SourceTensor {
    Item item;
    std::string source;
  };
  /// A layer of the files; its sizes are known if several are listed without --headers.
  struct LayerRow {
    LayerListing listing;
    std::optional<Dims> dims;
    DType dtype = DType::f32;
  };
  std::vector<File> files;
  std::vector<LayerRow> layers;
  // The chosen layer, if there is one and it can be loaded:
  std::string id, naming, headline;
  std::vector<SourceTensor> tensors;
  std::vector<Setting> settings;
  std::vector<std::pair<std::string, Shape>> stages; ///< that can be computed
  std::string missing_X; ///< for a layer without X: what its input could be
  std::string reason;    ///< why no layer is shown, or ""
  std::vector<Note> notes;
  std::vector<Suspicion> findings; ///< of lint; empty with --headers
};

/// Opens the sources with the chosen layer. If several layers exist and none is chosen, opens all
/// of them and sets `reason` to the message of that error. Throws Error for other errors.
OpenedModel open_one_or_all(const RunRequest& request, std::string& reason);

/// Opens and lists the sources. With `ranges` the tensors are also read. Throws Error for a broken
/// file, but not for files without a complete layer.
Inventory take_inventory(const RunRequest& request, bool ranges, std::size_t threads);

/// The inventory in one of `render::result_forms`: the files, the layers and the parts of the
/// chosen layer. CSV and NDJSON have only the tensors of the chosen layer, or else of the files.
std::string inventory_text(const Inventory& inventory, std::string_view form,
                           const render::TextStyle& text_style);

} // namespace mha::app
