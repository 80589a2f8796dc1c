#pragma once
// Observers whose results can be merged from parts that other processes have computed.

#include <mha/observe/compute.hpp>
#include <mha/observe/share_bytes.hpp>

#include <string>
#include <string_view>

namespace mha {

class Mergeable : public Observer {
public:
  /// Visits the fields of its result for a part of the plan. Reading them has the effect of
  /// observing that part here.
  virtual void share(const Layer& layer, const Plan& part, ShareBytes& bytes) = 0;

  /// The fields as bytes, for another process of this program.
  std::string part_bytes(const Layer& layer, const Plan& part) {
    ShareBytes bytes;
    share(layer, part, bytes);
    return bytes.take();
  }
  /// Merges another process's bytes. Throws Error for bytes that are not of that part.
  void merge_part(const Layer& layer, const Plan& part, std::string_view bytes) {
    ShareBytes reader(bytes);
    share(layer, part, reader);
    reader.end();
  }
};

} // namespace mha
