#include <mha/ranks/ranks.hpp>

namespace mha {

std::unique_ptr<Ranks> join_mpi() {
  return nullptr;
}

} // namespace mha
