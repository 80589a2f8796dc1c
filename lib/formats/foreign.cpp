#include <mha/formats/foreign.hpp>

#include <mha/files/bytes.hpp>
#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>

#include <algorithm>
#include <array>

namespace mha::io {

namespace {

struct Foreign {
  std::string_view extensions; ///< each followed by a space
  std::string_view what;
  std::string_view python; ///< FILE is replaced by the file's name, STEM by it without extension
};

constexpr Foreign hdf5{
    ".h5 .hdf5 ", "an HDF5 file",
    "import h5py, numpy; d = {}; h5py.File('FILE').visititems(lambda n, o: d.update({n: o[()]}) "
    "if hasattr(o, 'dtype') else None); numpy.savez('STEM.npz', **d)"};

/// HDF5 after a block of MATLAB's, with the axes in the opposite order.
constexpr Foreign mat73{
    "", "an HDF5 file of MATLAB",
    "import h5py, numpy; f = h5py.File('FILE'); "
    "numpy.savez('STEM.npz', **{n: f[n][()].T for n in f if hasattr(f[n], 'dtype')})"};

constexpr Foreign others[]{
    {".keras ", "an archive of Keras",
     "import h5py, io, numpy, zipfile; d = {}; "
     "h5py.File(io.BytesIO(zipfile.ZipFile('FILE').read('model.weights.h5')))"
     ".visititems(lambda n, o: d.update({n: o[()]}) if hasattr(o, 'dtype') else None); "
     "numpy.savez('STEM.npz', **d)"},
    {".msgpack ", "a MessagePack of Flax",
     "import numpy; from flax.serialization import msgpack_restore as r; from flax.traverse_util "
     "import flatten_dict as f; numpy.savez('STEM.npz', **f(r(open('FILE', 'rb').read()), "
     "sep='/'))"},
    {".mat ", "a file of MATLAB",
     "import numpy, scipy.io; d = scipy.io.loadmat('FILE'); "
     "numpy.savez('STEM.npz', **{n: a for n, a in d.items() if n[0] != '_'})"},
    {".xlsx .xlsm ", "a workbook of Excel",
     "import csv, openpyxl; w = openpyxl.load_workbook('FILE', data_only=True).active; "
     "csv.writer(open('STEM.csv', 'w', newline='')).writerows(w.values)"},
    {".xls .ods .numbers ", "a workbook",
     "import pandas; pandas.read_excel('FILE', header=None).to_csv('STEM.csv', header=False, "
     "index=False)"},
    {".index .data ", "a part of a TensorFlow checkpoint",
     "import numpy, tensorflow as t; r = t.train.load_checkpoint('STEM'); "
     "numpy.savez('STEM.npz', **{n: r.get_tensor(n) for n in r.get_variable_to_shape_map()})"}};

/// The kind of file with this extension, or nullptr. TensorFlow's parts are numbered:
/// ".data-00000-of-00001".
const Foreign* foreign_named(std::string_view extension) {
  const std::string word = std::string(extension.starts_with(".data-") ? ".data" : extension) + " ";
  const auto has = [&](const Foreign& foreign) {
    return !extension.empty() && foreign.extensions.find(word) != std::string_view::npos;
  };
  if (has(hdf5)) return &hdf5;
  const auto* const at = std::ranges::find_if(others, has);
  return at == std::end(others) ? nullptr : at;
}

std::string replaced(std::string_view text, std::string_view word, const std::string& with) {
  std::string result;
  for (std::size_t at; (at = text.find(word)) != text.npos; text.remove_prefix(at + word.size()))
    result += std::string(text.substr(0, at)) + with;
  return result + std::string(text);
}

/// The shell command for this file; FILE stays if the name would need quoting in the shell.
std::string line_for(std::string_view python, std::string_view path) {
  const bool plain = std::ranges::all_of(path, [](char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("/._-+=,").find(c) != std::string_view::npos;
  });
  std::string line(python);
  if (plain && !path.empty()) {
    const std::string file(path);
    const std::string stem = file.substr(0, file.size() - extension_of(path).size());
    line = replaced(replaced(line, "FILE", file), "STEM", stem);
  }
  return fmt::format("python3 -c \"{}\"", line);
}

std::string cure_of(const Foreign& foreign, std::string_view path) {
  return fmt::format("{} is not read; convert it: {}", foreign.what,
                     line_for(foreign.python, path));
}

[[noreturn]] void refuse(const Bytes& bytes, const Foreign& foreign) {
  fail("{}: {}", shown(bytes.name), cure_of(foreign, bytes.name));
}

} // namespace

void refuse_foreign(const Bytes& bytes) {
  const std::string_view text = bytes.text();
  const std::string extension = extension_of(bytes.name);

  refuse_pointer(bytes);
  if (text.starts_with("\x89HDF\r\n\x1a\n")) refuse(bytes, hdf5);
  if (text.starts_with("MATLAB 7.3 MAT-file")) refuse(bytes, mat73);
  for (const std::string_view page : {"<!DOCTYPE html", "<!doctype html", "<html"})
    if (text.starts_with(page))
      fail("{}: a web page, not the file itself: the server answered the download with a message; "
           "open it to read it",
           shown(bytes.name));
  if (text.size() > 512 && text.substr(257, 5) == "ustar")
    fail("{}: a TAR archive, as PyTorch 0.1 wrote it, is not read: unpack it, or load it in that "
         "version and save it again",
         shown(bytes.name));
  if (text.starts_with("\x1f\x8b"))
    fail("{}: compressed by gzip: unpack it first, as in gunzip -k", shown(bytes.name));
  if (text.starts_with("\x28\xb5\x2f\xfd"))
    fail("{}: compressed by zstd: unpack it first, as in unzstd", shown(bytes.name));
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    fail("{}: text in UTF-16: save it as UTF-8", shown(bytes.name));

  if (const Foreign* const foreign = foreign_named(extension)) refuse(bytes, *foreign);
  if (extension == ".bin" || extension == ".raw")
    fail("{0}: raw bytes have no shape: give NAME={0}:DTYPE[SHAPE], as in q={0}:f32[4,128,64]",
         shown(bytes.name));
}

std::string foreign_cure(std::string_view path) {
  const Foreign* const foreign = foreign_named(extension_of(path));
  return foreign ? cure_of(*foreign, path) : std::string();
}

std::string object_array_cure(std::string_view path) {
  const std::string_view shell =
      extension_of(path) == ".npz"
          ? "import numpy as n; f = n.load('FILE', allow_pickle=True); "
            "n.savez('STEM.plain.npz', **{k: n.array(f[k].tolist(), 'f4') for k in f})"
          : "import numpy as n; "
            "n.save('STEM.plain.npy', n.array(n.load('FILE', allow_pickle=True).tolist(), 'f4'))";
  return fmt::format("Python objects instead of numbers; convert them: {}", line_for(shell, path));
}

} // namespace mha::io
