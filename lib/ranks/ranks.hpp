#pragma once
// The processes that share one computation: those that mpirun started, or this one alone. Each does
// its part of every plan; what they agree on goes through here, and MPI stays behind it (mpi.cpp).

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
  /// What was written can be read by others from now on. Throws Error.
  virtual void close() = 0;
};

/// One process alone; a program with MPI has others beside it. What is marked "together" is called
/// by every rank, in the same order. Where a rank has called failed() instead, it throws RankFailed
/// on all others: so a rank that fails never leaves the others waiting.
class Ranks {
public:
  virtual ~Ranks() = default;
  std::size_t rank() const { return rank_; }
  std::size_t count() const { return count_; }
  /// The first speaks and has the last word.
  bool is_first() const { return rank_ == 0; }
  Shard part() const { return {rank_, count_}; }

  /// Together: a text of every rank, by rank.
  std::vector<std::string> all(const std::string& mine);
  /// Together: the first rank's text.
  std::string from_first(const std::string& text) { return all(is_first() ? text : "")[0]; }
  /// Together: the first rank is handed the bytes of every other, one after the other.
  using Taker = std::function<void(std::size_t rank, std::string_view bytes)>;
  void to_first(const std::string& mine, const Taker& take);
  /// Together: the largest, the sum.
  double largest(double value);
  double sum(double value);
  /// Together: every rank has come so far.
  void meet() { all(""); }
  /// This rank cannot go on, because of `message`. Returns the message of the first rank that
  /// cannot.
  std::string failed(const std::string& message);
  /// The last call: after it, no rank talks to another.
  virtual void leave() {}

  /// A file that another rank has made; each rank opens it for itself.
  virtual std::unique_ptr<SharedFile> open(const std::string& path);

protected:
  /// Sends a text to every rank and gets theirs.
  virtual std::vector<std::string> exchange(const std::string& mine) { return {mine}; }
  /// Sends bytes to the first rank, of any number; takes so many of a rank.
  virtual void send(const std::string& bytes);
  virtual std::string receive(std::size_t rank, std::size_t size);
  std::size_t rank_ = 0, count_ = 1;
  std::string host_; ///< the name of this rank's machine
};

/// The ranks of this program: joins MPI on the first call, if mpirun started it.
Ranks& world();

/// Whether mpirun (or srun with PMI) started this process beside others.
bool launched_by_mpi();
/// Whether mpirun started several processes of this program, which is built without MPI.
bool mpirun_without_mpi();

/// Joins the processes that mpirun started. Null in a program without MPI.
std::unique_ptr<Ranks> join_mpi();

} // namespace mha
