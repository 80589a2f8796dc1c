#pragma once
// Observers whose results can be put together from parts that other processes have computed.

#include <mha/observe/compute.hpp>
#include <mha/observe/share_bytes.hpp>

#include <string>
#include <string_view>

namespace mha {

class Mergeable : public Observer {
public:
  /// Visits the fields of what it has of a part of the plan. Where they are read, it is as if the
  /// part had been shown here.
  virtual void share(const Layer& layer, const Plan& part, ShareBytes& bytes) = 0;

  /// Those fields, for another process of this program.
  std::string part_bytes(const Layer& layer, const Plan& part) {
    ShareBytes bytes;
    share(layer, part, bytes);
    return bytes.take();
  }
  /// Takes what another has. Throws Error for bytes that are not of that part.
  void merge_part(const Layer& layer, const Plan& part, std::string_view bytes) {
    ShareBytes reader(bytes);
    share(layer, part, reader);
    reader.end();
  }
};

} // namespace mha
