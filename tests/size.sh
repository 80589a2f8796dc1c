#!/bin/sh
# How large the project is: code lines (blank lines and comments left out), files and types of C++ by
# folder, and beside them the page's JavaScript, Python, CMake, shell and the data of the library: what
# only moves between these is no saving.
#
#   sh tests/size.sh            the working tree
#   sh tests/size.sh COMMIT     a commit
#   sh tests/size.sh OLD NEW    both, and the difference
set -eu
cd "$(dirname "$0")/.."
[ $# -le 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Every file to "KIND FOLDER lines files types", one line each; a literal is no comment.
cat >"$folder/count.awk" <<'AWK'
function finish() {
  if (group != "") print group "\t" lines "\t1\t" types
}
function group_of(name, parts, n, place) {
  n = split(name, parts, "/")
  place = n == 1 ? "." : n == 2 ? parts[1] : parts[1] "/" parts[2]
  if (name ~ /\.(cpp|hpp|h)$/) return (name ~ /^(lib|app)\// ? "C++" : "C++ beside") "\t" place
  if (name ~ /\.m?js$/) return "JavaScript\t" place
  if (name ~ /\.pyi?$/) return "Python\t" place
  if (name ~ /(CMakeLists\.txt|\.cmake)$/) return "CMake\t" parts[1 + (n > 9)]
  if (name ~ /\.sh$/) return "shell\t" place
  if (name ~ /^lib\// && name !~ /\.(pc|map)(\.in)?$/) return "data\t" place
  return ""
}
FNR == 1 {
  finish()
  group = group_of(FILENAME)
  lines = types = inside = 0
  slashes = FILENAME ~ /\.(cpp|hpp|h|m?js|css)$/
  hashes = FILENAME ~ /(\.pyi?|CMakeLists\.txt|\.cmake|\.sh)$/
  python = FILENAME ~ /\.pyi?$/
}
group == "" { next }
{
  text = $0
  if (slashes) {
    gsub(/"([^"\\]|\\.)*"/, "0", text)
    if (inside) {
      if (!match(text, /\*\//)) next
      text = substr(text, RSTART + 2)
      inside = 0
    }
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", text)
    sub(/\/\/.*/, "", text)
    if (match(text, /\/\*/)) {
      text = substr(text, 1, RSTART - 1)
      inside = 1
    }
    if (text ~ /(^|[ \t>])(struct|class|enum|enum class|union)[ \t]+([A-Z_]+[ \t]+)?[A-Za-z_0-9:<>]+([ \t]+final)?[ \t]*(:[^;:][^;]*)?\{/) types++
  } else if (python) {
    if (inside) {
      if (text ~ /"""/) inside = 0
      next
    }
    if (text ~ /^[ \t]*r?"""/) {
      if (text !~ /""".*"""/) inside = 1
      next
    }
  }
  if (hashes) sub(/(^|[ \t])#.*/, "", text)
  if (text ~ /[^ \t\r]/) lines++
}
END { finish() }
AWK

# count NAME [COMMIT]: the sums of each folder into $folder/NAME.
count() {
  tree=.
  if [ $# -gt 1 ]; then
    tree=$folder/tree-$1
    mkdir "$tree"
    git archive "$2" | tar -x -C "$tree"
    (cd "$tree" && find . -type f | sed 's,^\./,,' >"$folder/files")
  else
    git ls-files -co --exclude-standard | while read -r file; do
      [ ! -f "$file" ] || printf '%s\n' "$file"
    done >"$folder/files"
  fi
  grep -E '\.(cpp|hpp|h|m?js|pyi?|cmake|sh)$|CMakeLists\.txt$|^lib/' "$folder/files" | sort >"$folder/chosen"
  (cd "$tree" && xargs awk -f "$folder/count.awk" <"$folder/chosen") |
    awk -F '\t' '{
      key = $1 "\t" $2; lines[key] += $3; files[key] += $4; types[key] += $5
      if ($1 == "C++") { split($2, part, "/"); all = "C++ of\t" part[1]
        lines[all] += $3; files[all] += $4; types[all] += $5
        lines["C++ of\tlib and app"] += $3; files["C++ of\tlib and app"] += $4; types["C++ of\tlib and app"] += $5 }
    }
    END { for (key in lines) print key "\t" lines[key] "\t" files[key] "\t" types[key] }' |
    LC_ALL=C sort >"$folder/$1"
}

if [ $# -eq 2 ]; then
  count old "$1"
  count new "$2"
  printf '%-12s %-20s %8s %8s %8s %7s %7s\n' kind folder "$(printf %.8s "$1")" "$(printf %.8s "$2")" lines files types
  awk -F '\t' '
    { key = $1 "\t" $2; keys[key] = 1 }
    NR == FNR { old[key] = $3; old_files[key] = $4; old_types[key] = $5; next }
    { new[key] = $3; new_files[key] = $4; new_types[key] = $5 }
    END { for (key in keys) printf "%s\t%d\t%d\t%+d\t%+d\t%+d\n", key, old[key], new[key], new[key] - old[key],
            new_files[key] - old_files[key], new_types[key] - old_types[key] }' "$folder/old" "$folder/new" |
    LC_ALL=C sort | awk -F '\t' '{ printf "%-12s %-20s %8d %8d %8s %7s %7s\n", $1, $2, $3, $4, $5, $6, $7 }'
else
  count now ${1:+"$1"}
  printf '%-12s %-20s %8s %7s %7s\n' kind folder lines files types
  awk -F '\t' '{ printf "%-12s %-20s %8d %7d %7d\n", $1, $2, $3, $4, $5 }' "$folder/now"
fi
