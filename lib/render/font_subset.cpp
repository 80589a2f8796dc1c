#include <mha/render/font_subset.hpp>

#include <mha/system/error.hpp>

#include <algorithm>
#include <array>

namespace mha::render {

namespace {

/// Big-endian numbers of a file, within its bytes.
class FontBytes {
public:
  explicit FontBytes(std::string_view bytes) : bytes_(bytes) {}

  std::size_t size() const { return bytes_.size(); }
  std::string_view part(std::size_t at, std::size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) fail("a font ends within a table");
    return bytes_.substr(at, count);
  }
  std::uint32_t u16(std::size_t at) const {
    const std::string_view two = part(at, 2);
    return static_cast<std::uint32_t>(static_cast<unsigned char>(two[0]) << 8 |
                                      static_cast<unsigned char>(two[1]));
  }
  int i16(std::size_t at) const { return static_cast<std::int16_t>(u16(at)); }
  std::uint32_t u32(std::size_t at) const { return u16(at) << 16 | u16(at + 2); }

private:
  std::string_view bytes_;
};

void put16(std::string& out, std::size_t value) {
  out += static_cast<char>(value >> 8 & 0xff);
  out += static_cast<char>(value & 0xff);
}
void put32(std::string& out, std::size_t value) {
  put16(out, value >> 16 & 0xffff);
  put16(out, value & 0xffff);
}
void set16(std::string& out, std::size_t at, std::size_t value) {
  out[at] = static_cast<char>(value >> 8 & 0xff);
  out[at + 1] = static_cast<char>(value & 0xff);
}

/// The places of a font's tables.
class FontTables {
public:
  explicit FontTables(std::string_view font) : font_(font), bytes_(font) {}

  /// A table's bytes; none where the font has no such table.
  std::string_view table(std::string_view tag) const {
    const std::size_t count = bytes_.u16(4);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t entry = 12 + 16 * i;
      if (bytes_.part(entry, 4) == tag)
        return bytes_.part(bytes_.u32(entry + 8), bytes_.u32(entry + 12));
    }
    return {};
  }
  std::string_view required(std::string_view tag) const {
    const std::string_view found = table(tag);
    if (found.empty()) fail("a font without the table '{}'", tag);
    return found;
  }

private:
  std::string_view font_;
  FontBytes bytes_;
};

class Subset {
public:
  Subset(std::string_view font, std::span<const std::uint16_t> glyphs)
      : tables_(font), order_{0}, long_places_(FontBytes(tables_.required("head")).u16(50) != 0) {
    count_ = FontBytes(tables_.required("maxp")).u16(4);
    order_.insert(order_.end(), glyphs.begin(), glyphs.end());
  }

  FontSubset run() {
    std::string outlines, places, metrics;
    FontSubset made;
    for (std::size_t i = 0; i < order_.size(); ++i) { // grows by the parts of composed glyphs
      put32(places, outlines.size());
      outlines += outline(order_[i]);
      outlines.append((4 - outlines.size() % 4) % 4, '\0');
      made.advances.push_back(advance(order_[i], metrics));
    }
    put32(places, outlines.size());
    std::string head(tables_.required("head")), hhea(tables_.required("hhea")),
        maxp(tables_.required("maxp"));
    set16(head, 50, 1); // places of 32 bits
    set16(hhea, 34, order_.size());
    set16(maxp, 4, order_.size());
    made.facts = facts(head, hhea);
    std::vector<std::pair<std::string_view, std::string>> list;
    for (std::string_view tag : {"cvt ", "fpgm"}) keep(list, tag);
    list.emplace_back("glyf", outlines);
    list.emplace_back("head", head);
    list.emplace_back("hhea", hhea);
    list.emplace_back("hmtx", metrics);
    list.emplace_back("loca", places);
    list.emplace_back("maxp", maxp);
    keep(list, "prep");
    made.file = assembled(list);
    return made;
  }

private:
  void keep(std::vector<std::pair<std::string_view, std::string>>& list,
            std::string_view tag) const {
    if (const std::string_view table = tables_.table(tag); !table.empty())
      list.emplace_back(tag, table);
  }
  /// A glyph's outline; the numbers of a composed one's parts are those of the subset.
  std::string outline(std::uint16_t glyph) {
    if (glyph >= count_) fail("glyph {} of a font of {}", glyph, count_);
    const FontBytes loca(tables_.required("loca"));
    const auto place = [&](std::size_t at) {
      return long_places_ ? std::size_t{loca.u32(4 * at)} : std::size_t{loca.u16(2 * at)} * 2;
    };
    const std::size_t begin = place(glyph), end = place(std::size_t{glyph} + 1u);
    if (end < begin) fail("a font whose glyphs overlap");
    std::string bytes(FontBytes(tables_.required("glyf")).part(begin, end - begin));
    if (!bytes.empty() && FontBytes(bytes).i16(0) < 0) renumber(bytes);
    return bytes;
  }
  void renumber(std::string& bytes) {
    constexpr std::uint32_t words = 0x1, one_scale = 0x8, more = 0x20, two_scales = 0x40,
                            matrix = 0x80;
    for (std::size_t at = 10;;) {
      const FontBytes glyph(bytes);
      const std::uint32_t flags = glyph.u16(at);
      const auto part = static_cast<std::uint16_t>(glyph.u16(at + 2));
      auto known = std::find(order_.begin(), order_.end(), part);
      if (known == order_.end()) known = order_.insert(order_.end(), part);
      set16(bytes, at + 2, static_cast<std::size_t>(known - order_.begin()));
      if ((flags & more) == 0) return;
      at += 4 + ((flags & words) != 0 ? 4u : 2u) +
            ((flags & one_scale) != 0    ? 2u
             : (flags & two_scales) != 0 ? 4u
             : (flags & matrix) != 0     ? 8u
                                         : 0u);
    }
  }
  int advance(std::uint16_t glyph, std::string& metrics) const {
    const FontBytes table(tables_.required("hmtx"));
    const std::size_t whole = FontBytes(tables_.required("hhea")).u16(34);
    if (whole == 0) fail("a font without widths");
    const std::size_t at = std::min<std::size_t>(glyph, whole - 1);
    const std::uint32_t width = table.u16(4 * at);
    put16(metrics, width);
    put16(metrics,
          glyph < whole ? table.u16(4 * at + 2) : table.u16(4 * whole + 2 * (glyph - whole)));
    return static_cast<int>(width);
  }
  static FontFacts facts(const std::string& head, const std::string& hhea) {
    const FontBytes in_head(head), in_hhea(hhea);
    FontFacts facts;
    facts.units_per_em = static_cast<int>(std::max<std::uint32_t>(in_head.u16(18), 1));
    facts.left = in_head.i16(36), facts.bottom = in_head.i16(38);
    facts.right = in_head.i16(40), facts.top = in_head.i16(42);
    facts.ascent = in_hhea.i16(4), facts.descent = in_hhea.i16(6);
    return facts;
  }
  static std::uint32_t checksum(std::string_view table) {
    std::string padded(table);
    padded.append((4 - padded.size() % 4) % 4, '\0');
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < padded.size(); i += 4) sum += FontBytes(padded).u32(i);
    return sum;
  }
  static std::string assembled(const std::vector<std::pair<std::string_view, std::string>>& list) {
    std::string out;
    put32(out, 0x00010000);
    put16(out, list.size());
    std::size_t power = 1, log = 0;
    while (power * 2 <= list.size()) power *= 2, ++log;
    put16(out, power * 16);
    put16(out, log);
    put16(out, list.size() * 16 - power * 16);
    std::size_t at = 12 + 16 * list.size();
    std::string body;
    for (const auto& [tag, table] : list) {
      out += tag;
      put32(out, checksum(table));
      put32(out, at + body.size());
      put32(out, table.size());
      body += table;
      body.append((4 - body.size() % 4) % 4, '\0');
    }
    return out + body;
  }

  FontTables tables_;
  std::vector<std::uint16_t> order_;
  bool long_places_;
  std::size_t count_ = 0;
};

} // namespace

FontSubset subset_of(std::string_view font, std::span<const std::uint16_t> glyphs) {
  return Subset(font, glyphs).run();
}

} // namespace mha::render
