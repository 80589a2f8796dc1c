#include "kernels/library_threads.hpp"

// Of GNU OpenMP, which oneDNN runs on; <omp.h> is not there for every compiler.
extern "C" void omp_set_num_threads(int);

namespace mha {

void use_one_library_thread() {
  thread_local bool is_set = false; // the setting is each thread's own
  if (is_set) return;
  omp_set_num_threads(1);
  is_set = true;
}

LibraryThreads::LibraryThreads(std::size_t threads) {
  use_one_library_thread(); // so that nobody sets it again meanwhile
  omp_set_num_threads(static_cast<int>(threads));
}

LibraryThreads::~LibraryThreads() {
  omp_set_num_threads(1);
}

} // namespace mha
