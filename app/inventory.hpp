#pragma once
// Inventory of the files, and its text: `info`.

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
    std::optional<Summary> range; ///< not for --headers
    std::string type = {};        ///< as the file has it, where it is stored in another form
  };
  struct File {
    std::string name, format;
    std::vector<Item> tensors;
    std::vector<std::pair<std::string, std::string>> scalars;
    std::vector<std::pair<std::string, std::size_t>> labels; ///< lists of text, and how many
    std::vector<std::string> notes;                          ///< what else is in the file
  };
  struct Setting {
    std::string name, value, origin; ///< origin "" = the default
  };
  /// A tensor of the layer by its canonical name, and where it comes from.
  struct SourceTensor {
    Item item;
    std::string source;
  };
  /// A layer of the files; its sizes where several are listed and numbers are read.
  struct Line {
    LayerListing listing;
    std::optional<Dims> dims;
    DType dtype = DType::f32;
  };
  std::vector<File> files;
  std::vector<Line> layers;
  // Of the chosen layer, where there is one and it could be made:
  std::string id, naming, headline;
  std::vector<SourceTensor> parts;
  std::vector<Setting> settings;
  std::vector<std::pair<std::string, Shape>> stages; ///< the ones it has
  std::string missing_X;                             ///< where it has none: what could be its input
  std::string reason;                                ///< otherwise: why not
  std::vector<Note> notes;
  std::vector<Finding> findings; ///< of lint; not for --headers
};

/// Opens the sources; where one of several layers was to be chosen, all of them, with why in
/// `reason`. Throws Error for what cannot be opened.
OpenedModel open_any(const Request& request, std::string& reason);

/// Opens the sources and looks. Files that are no layer are no error; files that are broken are.
Inventory take_inventory(const Request& request, bool ranges, std::size_t threads);

std::string inventory_text(const Inventory& inventory, const render::TextStyle& look);
std::string inventory_json(const Inventory& inventory);

} // namespace mha::app
