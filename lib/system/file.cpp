#include <mha/system/file.hpp>

#include <mha/system/error.hpp>

#include <functional>
#include <memory>
#include <system_error>

#include <unistd.h>

namespace mha {

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

std::string reason(int code) {
  return std::error_code(code, std::generic_category()).message();
}

namespace {

SignalList<Mapping::Range>& mapped_ranges() {
  static auto* all =
      new SignalList<Mapping::Range>; // a handler may run after statics are destroyed
  return *all;
}

} // namespace

Mapping::Mapping(const std::byte* start, std::size_t size, const std::string& name)
    : place_(mapped_ranges().add(
          std::make_unique<Range>(
              Range{start, size, fmt::format("{}: became shorter while it was read", name)})
              .release())) {}

Mapping::~Mapping() {
  const std::unique_ptr<Range> range(SignalList<Range>::take(place_));
}

const char* shortened_file_at(const void* address) noexcept {
  const char* message = nullptr;
  const auto* at = static_cast<const std::byte*>(address);
  mapped_ranges().for_each([&](SignalList<Mapping::Range>::Place& place) {
    const Mapping::Range* range = place.thing.load();
    if (range && !std::less<>()(at, range->start) && at < range->start + range->size)
      message = range->message.c_str();
  });
  return message;
}

} // namespace mha
