#pragma once
// A file that appears when it is whole: written beside its place, then renamed.

#include <mha/files/file.hpp>
#include <mha/files/temporaries.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mha::io {

/// A file that is written, mapped: several threads copy into it at once, where write() lets one in
/// after the other and has them wait.
class OutputMap {
public:
  OutputMap() = default;
  OutputMap(const OutputMap&) = delete;
  OutputMap& operator=(const OutputMap&) = delete;
  ~OutputMap() { close(); }

  /// Maps the `size` bytes that the file has, if it is large and lies on a file system where that
  /// is no slower than writing; else maps nothing.
  void open(int fd, std::uint64_t size);
  void close();

  /// Whether the bytes are in the file now. If not, write() has to do it, or says why it cannot:
  /// the map, too, finds the disk full before it copies, not while.
  bool write(std::uint64_t offset, const void* data, std::size_t size);

private:
  std::byte* start_ = nullptr;
  std::size_t size_ = 0;
  std::atomic<std::size_t> present_ = 0; ///< bytes whose pages this program still counts as its own
};

/// Bytes at positions, in any order and from several threads; commit() puts them in place. Standard
/// output, pipes and devices get them from beginning to end at commit(). Without commit() nothing
/// is left behind.
class OutputFile {
public:
  /// `parked` closes the file between writes, for folders of more files than may be open at once.
  explicit OutputFile(std::string path, bool parked = false);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::uint64_t offset, const void* data, std::size_t size);
  void write(std::uint64_t offset, std::string_view bytes) {
    write(offset, bytes.data(), bytes.size());
  }
  /// The file's full size, so that what is not written is zero.
  void resize(std::uint64_t size);
  void commit();
  /// Where the bytes lie until then, for others to write there, too; "" where that has no name.
  const std::string& temporary() const { return temporary_; }

  /// commit() in steps, for several files that appear together or not at all: first each is closed,
  /// where a full disk may still show; then each is published; then what they replaced goes, or, if
  /// one could not be published, withdraw() puts it back.
  void close();
  void publish();
  void withdraw() noexcept;
  void settle();

private:
  [[noreturn]] void refuse(int code) const;
  void open_beside();
  void open_spool();
  void send(int fd);

  std::string path_;      // as the user wrote it
  std::string target_;    // the regular file that path_ leads to
  std::string temporary_; // its name beside the target
  Temporary removed_;     // … which goes, unless it has become the target
  File file_;
  OutputMap map_; // of it, once its size is known
  File direct_;   // the pipe or device, open; or standard output
  bool is_direct_ = false;
  bool is_published_ = false,
       is_exchanged_ = false; // exchanged: the old file has the temporary name
};

} // namespace mha::io
