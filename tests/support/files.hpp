#pragma once
// The files that tests read.

#include "support/places.hpp"

#include <mha/formats/formats.hpp>
#include <mha/load/load.hpp>

/// A path in the repository.
inline std::string in_source(const std::string& path) {
  return mha::test::source_folder() + "/" + path;
}

/// A tensor of a file, as a test expects it to be there.
inline mha::Tensor tensor_in(const mha::io::Contents& contents, const std::string& name) {
  const mha::io::Entry* entry = contents.find(name);
  if (!entry) mha::fail("{} has no {}", contents.name, name);
  return entry->read();
}
