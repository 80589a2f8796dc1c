#pragma once
// The files that a run reads: none of them is written, and none may change while it is read.

#include <string>

struct stat;

namespace mha::io {

/// While one lives, every file that is opened to be read is noted (by device and inode, so that
/// links are seen through), and OutputFile refuses to replace one. A program has one from its start
/// to its end; the library notes nothing by itself.
class InputGuard {
public:
  InputGuard();
  ~InputGuard();
  InputGuard(const InputGuard&) = delete;
  InputGuard& operator=(const InputGuard&) = delete;
};

/// While one lives, what this thread opens is looked at, but is no input: an older result that
/// --resume may keep.
class NotAnInput {
public:
  NotAnInput();
  ~NotAnInput();
  NotAnInput(const NotAnInput&) = delete;
  NotAnInput& operator=(const NotAnInput&) = delete;
};

/// Notes a file or folder that was opened; `mapped`: its bytes are read while it is used, so that
/// they must stay what they are.
void note_input(const std::string& path, const struct stat& status, bool mapped);
/// Notes a folder whose files are read as one: a checkpoint, its tokenizer, a layer's .npy files.
/// What belongs to it is not replaced, read or not, and nothing that would be read with it is put
/// beside it.
void note_folder(const std::string& path);
/// Notes a file that will be read later in the run, if it is there by then.
void note_later_input(const std::string& path);

/// Throws Error where writing `path` ("-": standard output) would replace a file that was or will
/// be read, by whatever name, that belongs to a folder that is read, or would be read with it; or
/// would put files into such a folder (`into`).
void require_no_input(const std::string& path, bool into = false);

/// Throws Error where a mapped file is not what it was when it was opened: what was made of it is
/// of two versions.
void require_unchanged_inputs();

} // namespace mha::io
