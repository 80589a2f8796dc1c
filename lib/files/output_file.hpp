#pragma once
// A file that appears only when it is complete: it is written under a temporary name, then renamed.

#include <mha/files/temporaries.hpp>
#include <mha/system/file.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mha::io {

/// A memory map of a file that is written. Several threads can copy into it at once, while write()
/// would make them wait for each other.
class OutputMap {
public:
  OutputMap() = default;
  OutputMap(const OutputMap&) = delete;
  OutputMap& operator=(const OutputMap&) = delete;
  ~OutputMap() { close(); }

  /// Maps the `size` bytes of the file if it is large and its file system is as fast with a map as
  /// with write(); otherwise maps nothing.
  void open(int fd, std::uint64_t size);
  void close();

  /// Copies the bytes into the map. If it returns false, the caller uses write(), which also
  /// reports errors: a full disk is detected before anything is copied.
  bool write(std::uint64_t offset, const void* data, std::size_t size);

private:
  std::byte* start_ = nullptr;
  std::size_t size_ = 0;
  std::atomic<std::size_t> present_ = 0; ///< bytes whose pages this program still counts as its own
};

/// Takes bytes at any offset, in any order and from several threads; commit() puts the file in
/// place. Standard output, pipes and devices get all bytes in order at commit(). Without commit()
/// no file remains.
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
  /// Sets the file's full size; bytes that are not written are zero.
  void resize(std::uint64_t size);
  void commit();
  /// The temporary file's path, so that other processes can also write to it; "" if it has none.
  const std::string& temporary() const { return temporary_; }

  /// commit() in steps, for several files that must appear together or not at all. Each is closed,
  /// which may still report a full disk; then each is published; then settle() removes the replaced
  /// files, or, if one could not be published, withdraw() restores them.
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
  std::string temporary_; // the temporary name beside the target
  Temporary removed_;     // removes the temporary file unless it has become the target
  File file_;
  OutputMap map_; // of file_, once its size is known
  File direct_;   // the open pipe or device; empty for standard output
  bool is_direct_ = false;
  bool is_published_ = false,
       is_exchanged_ = false; // exchanged: the old file has the temporary name
};

} // namespace mha::io
