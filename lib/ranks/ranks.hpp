#pragma once
// The processes that share one computation: those that mpirun started, or this one alone. Each
// computes its part of every plan. They communicate through this interface; only mpi.cpp uses MPI.

#include <mha/schedule/shards.hpp>

#include <mha/files/writer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// A rank failed, and every rank knows it.
class RankFailed : public Error {
public:
  using Error::Error;
};

/// A file in which every rank writes at positions of its own.
class SharedFile {
public:
  virtual ~SharedFile() = default;
  /// Thread-safe for disjoint ranges. Throws Error.
  virtual void write(std::uint64_t offset, const std::byte* data, std::size_t size) = 0;
  /// Makes what was written readable for others. Throws Error.
  virtual void close() = 0;
};

/// The ranks of a computation; this class itself is one process alone. Every rank must call the
/// functions marked "together", in the same order. If a rank calls failed() instead, they throw
/// RankFailed on all others, so that a rank that fails never leaves the others waiting.
class Ranks {
public:
  virtual ~Ranks() = default;
  std::size_t rank() const { return rank_; }
  std::size_t count() const { return count_; }
  /// The first rank prints the results.
  bool is_first() const { return rank_ == 0; }
  Shard part() const { return {rank_, count_}; }

  /// Together: exchanges texts, and returns those of all ranks in their order.
  std::vector<std::string> all(const std::string& mine);
  /// Together: the first rank's text.
  std::string from_first(const std::string& text) { return all(is_first() ? text : "")[0]; }
  /// Together: the first rank gets the bytes of every other, one after the other.
  using Taker = std::function<void(std::size_t rank, std::string_view bytes)>;
  void to_first(const std::string& mine, const Taker& take);
  /// Together: the largest value, and the sum of all.
  double largest(double value);
  double sum(double value);
  /// Together: waits until every rank is here.
  void meet() { all(""); }
  /// Reports that this rank cannot go on because of `message`. Returns the message of the first
  /// rank that cannot.
  std::string failed(const std::string& message);
  /// Ends all communication. The last call.
  virtual void leave() {}

  /// Opens a file that another rank has made; each rank opens it for itself.
  virtual std::unique_ptr<SharedFile> open(const std::string& path);

protected:
  /// Sends a text to every rank and gets theirs.
  virtual std::vector<std::string> exchange(const std::string& mine) { return {mine}; }
  /// Sends any number of bytes to the first rank; receives `size` bytes of a rank.
  virtual void send(const std::string& bytes);
  virtual std::string receive(std::size_t rank, std::size_t size);
  std::size_t rank_ = 0, count_ = 1;
  std::string host_; ///< the name of this rank's machine
};

/// The ranks of this program: joins MPI on the first call, if mpirun started it.
Ranks& world();

/// Whether mpirun (or srun with PMI) started this process as one of several.
bool launched_by_mpi();
/// Whether mpirun started several processes of this program, which is built without MPI.
bool mpirun_without_mpi();

/// Joins the processes that mpirun started. Null in a program built without MPI.
std::unique_ptr<Ranks> join_mpi();

} // namespace mha
