#include <mha/ranks/mpi.hpp>

namespace mha {

std::unique_ptr<Ranks> join_mpi() {
  return nullptr;
}

} // namespace mha
