// A description of a model: its JSON, read, held against the tensors of data/wheel, and computed
// for three tokens. Run in the project's root.

#include "fuzz/expect.hpp"
#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/trace.hpp>

#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace {

/// A path that ends in .json, of a file in memory whose bytes are the input's.
class DescriptionFile {
public:
  DescriptionFile() {
    mha::fuzz::require(mkdtemp(folder_.data()) != nullptr, "a folder");
    path_ = folder_ + "/naming.json";
    file_ = open(path_.c_str(), O_RDWR | O_CREAT, 0600);
    mha::fuzz::require(file_ >= 0, "a file");
  }
  const std::string& path() const { return path_; }
  bool write(const std::uint8_t* data, std::size_t size) const {
    return ftruncate(file_, 0) == 0 && pwrite(file_, data, size, 0) == static_cast<ssize_t>(size);
  }

private:
  std::string folder_ = "/dev/shm/mha-fuzz-XXXXXX", path_;
  int file_ = -1;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mha;
  static const DescriptionFile description;
  if (size == 0 || !description.write(data, size)) return 0;
  fuzz::expect_error_or_success([&] {
    RunRequest request;
    request.sources = {"data/wheel"};
    request.naming = description.path();
    request.text.ids = {"1,0,2"};
    OpenedModel model(request);
    model.threads = 1;
    if (model.chosen().size() > 8) return; // one layer's weights, as often as is asked
    for (const std::string& id : model.chosen())
      trace(model.load(id).layer, {Stage::weights, Stage::resid_post}, {}, 1);
  });
  return 0;
}
