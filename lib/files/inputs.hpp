#pragma once
// The files that a run reads. None of them may be overwritten, or change while it is read.

#include <string>

struct stat;

namespace mha::io {

/// During its lifetime every file that is opened for reading is recorded, by device and inode so
/// that links do not hide it, and OutputFile refuses to replace it. A program keeps a guard from
/// start to end; the library alone records nothing.
class InputGuard {
public:
  InputGuard();
  ~InputGuard();
  InputGuard(const InputGuard&) = delete;
  InputGuard& operator=(const InputGuard&) = delete;
};

/// During its lifetime, files that this thread opens do not count as inputs: an older result that
/// --resume may keep.
class NotAnInput {
public:
  NotAnInput();
  ~NotAnInput();
  NotAnInput(const NotAnInput&) = delete;
  NotAnInput& operator=(const NotAnInput&) = delete;
};

/// Records a file or folder that was opened. The bytes of a `mapped` one are read later, so they
/// must not change.
void note_input(const std::string& path, const struct stat& status, bool mapped);
/// Records a folder whose files are read together: a checkpoint, its tokenizer, a layer's .npy
/// files. None of its files may be replaced, and no file that would be read with them may be added.
void note_folder(const std::string& path);
/// Records a file that will be read later in the run, if it exists by then.
void note_later_input(const std::string& path);

/// Throws Error if writing `path` ("-": standard output) would replace an input under any name or a
/// file of an input folder, or would add a file that is read with such a folder; with `into`, if it
/// would put files into an input folder.
void require_no_input(const std::string& path, bool into = false);

/// Throws Error if a mapped file has changed since it was opened, since the result would then mix
/// two versions.
void require_unchanged_inputs();

} // namespace mha::io
