#pragma once
// Ranks that are threads of a test: what ranks do together, without MPI.

#include <mha/ranks/ranks.hpp>

/// Runs `work(ranks)` on so many ranks, as the program's main function does. The message with which
/// all have ended, "" where all went well; where they did not end with the same, what each reports.
std::string run_ranks(std::size_t count, const std::function<void(mha::Ranks& ranks)>& work);
