#pragma once
// A layer in a file under the names that its users type, read as the program reads it.

#include "support/reference.hpp"
#include <mha/load/load.hpp>

#include <string>
#include <utility>
#include <vector>

struct LayerFile {
  std::vector<std::pair<std::string, mha::Tensor>> tensors;
  std::vector<std::pair<std::string, std::string>> settings; ///< in the file, as 0-d arrays

  void put(const std::string& name, const reference::Array& array, mha::DType dtype);
};

/// Writes an .npz and loads it, with `options` of the command line and tensors that are bound.
mha::LoadedLayer load_npz(const LayerFile& file,
                          const std::vector<std::pair<std::string, std::string>>& options = {},
                          const LayerFile& bound = {});
/// Everything bound (NAME=FILE), one .npy a tensor; the settings are options.
mha::LoadedLayer load_bound(const LayerFile& file);

/// The numbers as `dtype` holds them.
reference::Array rounded(const reference::Array& array, mha::DType dtype);
