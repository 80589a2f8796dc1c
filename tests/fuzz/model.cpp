// A whole file, of whichever format its bytes are, as the program takes it: opened, recognised,
// assembled, computed.

#include "fuzz/expect.hpp"
#include <mha/layer/graph.hpp>
#include <mha/load/load.hpp>
#include <mha/observe/trace.hpp>

#include <sys/mman.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mha;
  if (size == 0) return 0; // is no regular file's size for the cache of streams
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size))
    return 0;
  fuzz::expect_error_or_success([&] {
    Request request;
    request.sources = {path};
    const Sources model(std::move(request));
    for (const std::string& id : model.chosen()) {
      const LoadedLayer loaded = model.load(id);
      for (const std::string& note : loaded.notes) fuzz::require(!note.empty(), "a note");
      const Layer& layer = loaded.layer;
      const StageSet available = available_stages(layer);
      std::vector<Stage> wanted;
      for (const StageInfo& info : stages()) {
        if (!contains(available, info.stage)) continue;
        std::size_t count = 1;
        for (const SelectedAxis& axis : selected_axes(layer, info.stage, {}))
          count = count > 100'000 ? count : count * axis.pick.indices.size();
        if (count > 100'000) return; // a large layer may take its time
        wanted.push_back(info.stage);
      }
      if (!wanted.empty()) trace(layer, wanted, {}, 1);
    }
  });
  return 0;
}
