#pragma once
// MPI's ranks; in a program that is built without MPI, none.

#include <mha/ranks/ranks.hpp>

namespace mha {

/// Joins the processes that mpirun started. Null in a program without MPI.
std::unique_ptr<Ranks> join_mpi();

} // namespace mha
