#pragma once
// Observers whose results can be put together from parts that other processes have computed.

#include <mha/observe/compute.hpp>

#include <string>
#include <string_view>

namespace mha {

class Mergeable : public Observer {
public:
  /// What it has of a part of the plan, as bytes for another process of this program.
  virtual std::string part_bytes(const Layer& layer, const Plan& part) const = 0;
  /// Takes what another has of that part: then it is as if all had been shown here. Throws Error
  /// for bytes that are not of that part.
  virtual void merge_part(const Layer& layer, const Plan& part, std::string_view bytes) = 0;
};

} // namespace mha
