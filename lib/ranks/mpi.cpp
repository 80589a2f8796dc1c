// The only file that uses MPI.

#include <mha/ranks/ranks.hpp>

#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>

#include <mpi.h>
#include <sched.h>

namespace mha {

namespace {

constexpr std::size_t most_at_once = std::size_t{1} << 30; // MPI counts in int

std::string reason_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

/// Opened by each rank for itself, so that no call waits for another rank.
class MpiFile : public SharedFile {
public:
  explicit MpiFile(std::string path) : path_(std::move(path)) {
    require(MPI_File_open(MPI_COMM_SELF, path_.c_str(), MPI_MODE_WRONLY, MPI_INFO_NULL, &file_),
            message("open it: every host must see the folder of <output>"));
  }
  ~MpiFile() override {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
  }
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;

  void write(std::uint64_t offset, const std::byte* data, std::size_t size) override {
    const std::lock_guard hold(lock_);
    while (size > 0) {
      const std::size_t part = std::min(size, most_at_once);
      MPI_Status status;
      require(MPI_File_write_at(file_, static_cast<MPI_Offset>(offset), data,
                                static_cast<int>(part), MPI_BYTE, &status),
              "write");
      int written = 0;
      MPI_Get_count(&status, MPI_BYTE, &written);
      if (written <= 0) fail("{}: cannot write: is there no room left on the device?", path_);
      const auto done = static_cast<std::size_t>(written);
      offset += done, data += done, size -= done;
    }
  }
  void close() override { require(MPI_File_close(&file_), "close it"); }

private:
  void require(int code, const Message& what) const {
    if (code != MPI_SUCCESS) fail("{}: cannot {}: {}", path_, what, reason_of(code));
  }
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
  std::mutex lock_; ///< MPI is initialised for one call at a time
};

class MpiRanks : public Ranks {
public:
  MpiRanks() {
    set_transport();
    int given = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given);
    int rank = 0, count = 1, length = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    rank_ = static_cast<std::size_t>(rank), count_ = static_cast<std::size_t>(count);
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Get_processor_name(host, &length);
    host_.assign(host, static_cast<std::size_t>(length));
    if (count > 1) share_node();
  }

  void leave() override {
    int left = 0;
    MPI_Finalized(&left);
    if (left == 0) MPI_Finalize();
  }

  std::unique_ptr<SharedFile> open(const std::string& path) override {
    return std::make_unique<MpiFile>(path);
  }

protected:
  std::vector<std::string> exchange(const std::string& mine) override {
    const int size = static_cast<int>(
        std::min<std::size_t>(mine.size(), std::numeric_limits<int>::max() / count_));
    std::vector<int> sizes(count_), starts(count_);
    MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    for (std::size_t i = 1; i < count_; ++i) starts[i] = starts[i - 1] + sizes[i - 1];
    std::string bytes(static_cast<std::size_t>(starts.back() + sizes.back()), '\0');
    MPI_Allgatherv(mine.data(), size, MPI_CHAR, bytes.data(), sizes.data(), starts.data(), MPI_CHAR,
                   MPI_COMM_WORLD);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < count_; ++i)
      texts.push_back(
          bytes.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(sizes[i])));
    return texts;
  }

  void send(const std::string& bytes) override {
    for (std::size_t at = 0; at < bytes.size(); at += most_at_once)
      MPI_Send(bytes.data() + at, static_cast<int>(std::min(most_at_once, bytes.size() - at)),
               MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
  std::string receive(std::size_t rank, std::size_t size) override {
    std::string bytes(size, '\0');
    for (std::size_t at = 0; at < size; at += most_at_once)
      MPI_Recv(bytes.data() + at, static_cast<int>(std::min(most_at_once, size - at)), MPI_CHAR,
               static_cast<int>(rank), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return bytes;
  }

private:
  /// Ranks of one host communicate through its memory. Open MPI still searches for fast adapters,
  /// for 0.2 s, unless its transport is set; a transport set by the caller stays.
  static void set_transport() {
    const char *all = std::getenv("OMPI_COMM_WORLD_SIZE"),
               *here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (all && here && std::string_view(all) == here) setenv("OMPI_MCA_pml", "ob1", 0);
  }
  /// Divides the cores that this rank may use among the ranks of this host with the same cores. A
  /// rank that mpirun has bound to cores of its own uses all of them.
  static void share_node() {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int count = 1;
    MPI_Comm_size(node, &count);
    std::vector<cpu_set_t> cores(static_cast<std::size_t>(count));
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, cores.data(), sizeof mine, MPI_BYTE, node);
    MPI_Comm_free(&node);
    const auto same = std::count_if(cores.begin(), cores.end(), [&](const cpu_set_t& other) {
      return CPU_EQUAL(&mine, &other) != 0;
    });
    share_cores(std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&mine) / same)));
  }
};

} // namespace

std::unique_ptr<Ranks> join_mpi() {
  return std::make_unique<MpiRanks>();
}

} // namespace mha
