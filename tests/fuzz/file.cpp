// A file of one format (FUZZ_FORMAT): everything in it is read, or it is refused in one line.

#include "fuzz/expect.hpp"
#include <mha/formats/formats.hpp>

#include <algorithm>
#include <memory>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mha;
  // Memory of exactly that size: AddressSanitizer sees a byte too many.
  const std::shared_ptr<std::byte[]> copy(new std::byte[size]);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, copy.get());
  fuzz::expect_error_or_success([&] {
    const io::Bytes bytes{"file", {copy, copy.get()}, size};
    const io::Contents contents = io::format_named(FUZZ_FORMAT).read(bytes);
    for (const io::Entry& entry : contents.tensors) {
      const Tensor tensor = entry.read();
      fuzz::require(tensor.shape() == entry.shape && tensor.dtype() == entry.dtype,
                    "what is read is what was announced");
    }
  });
  return 0;
}
