#include "allocation.hpp"

#include <cstdlib> // says which C library it is
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace mha::app {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that it takes
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

} // namespace mha::app
