#include "stack.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <thread>

namespace mha::app {

int run_on_own_stack(const std::function<int()>& work) {
  constexpr std::size_t least = 1 << 20, usual = 8 << 20; // bytes
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= least) return work();
  // The stack of the first thread cannot be made larger; that of others is a setting.
  pthread_attr_t settings;
  if (pthread_attr_init(&settings) != 0) return work();
  const bool set = pthread_attr_setstacksize(&settings, usual) == 0 &&
                   pthread_setattr_default_np(&settings) == 0;
  pthread_attr_destroy(&settings);
  if (!set) return work();
  int code = 0;
  std::thread([&] { code = work(); }).join();
  return code;
}

} // namespace mha::app
