#pragma once
// The Python literal in an NPY header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }

#include <mha/tensor/tensor.hpp>

#include <string>
#include <string_view>

namespace mha::io {

struct NpyLiteral {
  std::string descr;
  bool structured = false; ///< descr is a list of fields
  bool fortran = false;
  Shape shape;
};

/// Parses the dictionary, whatever the order of its keys and its spacing; throws Error
/// "WHERE: NPY header: …" for anything else.
NpyLiteral parse_npy_literal(const std::string& where, std::string_view text);

} // namespace mha::io
