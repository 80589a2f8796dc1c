#pragma once
// Damaged bytes and texts, and what whoever reads them must endure.

#include <mha/load/load.hpp>

#include <functional>
#include <random>
#include <string>
#include <vector>

/// One to four damages: bits, bytes, pieces that are cut out, doubled, moved or overwritten, the
/// end.
std::string damaged(std::string bytes, std::mt19937& random);

/// Everything that `show` computes for every chosen layer.
void compute_every_layer(mha::Request request);

/// What reading damaged input must endure.
struct Endurance {
  int mutants = 0;
  /// Whether none may take two seconds of this process's time, nor all of them together 64 MiB more
  /// than the whole input takes.
  bool measured = false;
};

/// `use` takes the whole input (null) and then as many damaged ones, drawn from the numbers that it
/// is given; it works or throws an Error of one line. Where it measures, it prints a line too.
void require_endured(const std::string& name, Endurance endurance,
                     const std::function<void(std::mt19937*)>& use);
/// A message or a note as it is printed: one line, neither empty nor endless, of valid UTF-8, that
/// steers no terminal.
void require_line(const std::string& text);
