#pragma once
// Which file lies at an address: where a mapped file becomes shorter while it is read, the system
// sends SIGBUS, and the handler wants to say whose fault it is.

#include <mha/files/signal_list.hpp>

#include <cstddef>
#include <string>

namespace mha::io {

/// A mapped file, noted as long as this lives.
class Mapping {
public:
  Mapping(const std::byte* start, std::size_t size, const std::string& name);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  struct Range {
    const std::byte* start;
    std::size_t size;
    std::string message; ///< made beforehand: a handler must not ask for memory
  };

private:
  SignalList<Range>::Place& place_;
};

/// "PATH: became shorter while it was read" for an address in a mapped file, else nullptr. For
/// handlers of SIGBUS; the library installs none.
const char* shortened_file_at(const void* address) noexcept;

} // namespace mha::io
