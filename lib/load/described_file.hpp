#pragma once
// The file behind a description: its tensors as the description names them, each claimed once it is
// used. Inside of described.cpp.

#include <mha/load/described_tensors.hpp>
#include <mha/load/families/description.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha {

class DescribedFile {
protected:
  DescribedFile(const naming::Description& said, const io::Contents& file)
      : said_(said), file_(file) {}

  /// A tensor of the file. Where it is missing and needed, the Error names `who`, the entry that
  /// reads it.
  const io::Entry* find(const std::string& name, const std::string& who, bool needed);
  /// The entries of a name with {head}, one a head.
  std::vector<io::Entry> of_heads(const naming::DescribedTensor& tensor, const std::string& name,
                                  bool needed);
  /// Hands an entry on under a name of the record.
  void add(std::string name, io::Entry entry);
  void require_rank(const naming::DescribedTensor& tensor, const io::Entry& entry,
                    std::size_t rank) const;
  /// A matrix of a linear map, read as `wanted` ("io", "oi"), or of heads ("hio").
  io::Entry matrix(const naming::DescribedTensor& tensor, const std::string& name,
                   std::string wanted);
  /// A linear map, or a convolution of patches that do not overlap, which is one of a patch's
  /// numbers in their order: channels, rows, columns.
  io::Entry embedding_map(const naming::DescribedTensor& said);
  /// What the description denies is not left over: a name, or one of each head.
  void claim_all(const std::string& name);
  /// The bias of a linear map, or nothing: a name that is said has to be there.
  std::optional<io::Entry> bias_of(const naming::DescribedTensor& tensor, const std::string& weight,
                                   std::size_t layer);
  /// A map's weight or bias with its outputs, the last axis, multiplied as the tensor says.
  io::Entry multiplied(const naming::DescribedTensor& tensor, const io::Entry& outputs,
                       std::size_t layer);
  /// Throws Error where a bias has not as many numbers as its map has outputs.
  void require_bias(const naming::DescribedTensor& tensor, const io::Entry& bias,
                    std::size_t expected) const;
  /// Throws Error where an axis has another length than expected (0: any), and says which layout
  /// would fit.
  void require_axis(const naming::DescribedTensor& tensor, const io::Entry& entry, std::size_t axis,
                    std::size_t expected, std::string_view does) const;

  /// The rows before the vectors that come in, one below the other.
  io::Entry rows_in_front();
  /// Rows of positions, multiplied as the description says.
  io::Entry scaled_positions(const io::Entry& rows, const naming::Group& config) const;
  /// Computed rows of positions, of a stream of this width (0: not known).
  io::Entry sinusoid(std::size_t width, const naming::Group& config) const;

  const naming::Description& said_;
  const io::Contents& file_;
  std::vector<io::Entry> entries_;
  std::set<std::string, std::less<>> claimed_;

private:
  void require_same_head(const naming::DescribedTensor& tensor,
                         const std::vector<io::Entry>& heads) const;
};

} // namespace mha
