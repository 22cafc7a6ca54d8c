// Advance widths of Inter 4.0 in thousandths of the size, and their sum over UTF-8 text.
#include "core/figure/text_metrics.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace afterglow {
namespace {

struct SymbolWidth {
  char16_t character;
  std::uint16_t regular;
  std::uint16_t semibold;
};

// clang-format off
constexpr std::array<std::uint16_t, 95> ascii_regular = {
    281, 278, 403, 631, 638, 812, 639, 222, 362, 362, 500, 659, 280, 460, 276, 357, 625, 464, 605, 636, 642, 608, 624,
    571, 616, 624, 276, 280, 659, 659, 659, 507, 936, 676, 651, 727, 719, 598, 587, 743, 740, 264, 543, 652, 562, 889,
    753, 761, 635, 761, 639, 638, 642, 741, 676, 949, 642, 665, 625, 362, 357, 362, 469, 452, 497, 564, 621, 558, 621,
    582, 361, 609, 591, 237, 237, 544, 237, 869, 585, 597, 609, 609, 372, 523, 364, 581, 557, 812, 540, 557, 541, 362,
    327, 362, 659};
constexpr std::array<std::uint16_t, 95> ascii_semibold = {
    248, 309, 396, 643, 649, 844, 663, 213, 393, 393, 543, 673, 295, 466, 290, 379, 667, 481, 621, 652, 666, 632, 648,
    587, 646, 648, 290, 295, 673, 673, 673, 544, 999, 724, 657, 744, 724, 608, 586, 755, 744, 275, 561, 677, 566, 906,
    741, 775, 643, 776, 651, 649, 660, 734, 724, 1007, 690, 705, 653, 393, 379, 393, 481, 468, 497, 575, 630, 577,
    630, 593, 377, 625, 613, 261, 261, 569, 261, 898, 610, 608, 625, 625, 397, 549, 380, 608, 576, 837, 562, 576, 562,
    393, 358, 393, 673};
constexpr std::array<std::uint16_t, 96> latin_regular = {
    281, 278, 558, 631, 723, 548, 266, 551, 591, 915, 449, 540, 540, 460, 670, 449, 455, 659, 420, 430, 497, 622, 599,
    276, 267, 313, 449, 540, 884, 926, 949, 507, 676, 676, 676, 676, 676, 676, 990, 727, 598, 598, 598, 598, 264, 264,
    264, 264, 719, 753, 761, 761, 761, 761, 761, 659, 761, 741, 741, 741, 741, 665, 631, 609, 564, 564, 564, 564, 564,
    564, 925, 558, 582, 582, 582, 582, 237, 237, 237, 237, 580, 585, 597, 597, 597, 597, 597, 659, 597, 581, 581, 581,
    581, 557, 609, 557};
constexpr std::array<std::uint16_t, 96> latin_semibold = {
    248, 309, 577, 658, 751, 564, 319, 579, 553, 915, 474, 597, 566, 466, 666, 526, 458, 673, 423, 438, 497, 652, 606,
    290, 339, 318, 473, 599, 881, 919, 960, 544, 724, 724, 724, 724, 724, 724, 1017, 744, 608, 608, 608, 608, 275,
    275, 275, 275, 724, 741, 775, 775, 775, 775, 775, 673, 775, 734, 734, 734, 734, 705, 657, 646, 575, 575, 575, 575,
    575, 575, 917, 577, 593, 593, 593, 593, 261, 261, 261, 261, 593, 610, 608, 608, 608, 608, 608, 673, 608, 608, 608,
    608, 608, 576, 612, 576};
constexpr std::array<std::uint16_t, 144> greek_regular = {
    631, 540, 653, 540, 267, 267, 753, 631, 600, 600, 267, 540, 540, 540, 276, 543, 600, 600, 600, 600, 267, 540, 676,
    276, 690, 862, 304, 600, 781, 600, 817, 764, 266, 676, 651, 575, 676, 598, 625, 740, 761, 264, 652, 676, 889, 753,
    540, 761, 722, 635, 600, 631, 642, 665, 750, 642, 778, 761, 264, 665, 641, 544, 585, 266, 585, 641, 592, 534, 540,
    544, 523, 585, 540, 266, 631, 585, 622, 580, 540, 597, 631, 571, 538, 631, 472, 585, 732, 599, 747, 811, 266, 585,
    597, 585, 811, 631, 631, 631, 662, 751, 662, 699, 811, 722, 761, 631, 722, 540, 631, 540, 631, 540, 722, 722, 600,
    600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 600, 722, 631, 558, 237, 761, 449, 449, 631, 609, 727,
    889, 722, 571, 631, 727, 727};
constexpr std::array<std::uint16_t, 144> greek_semibold = {
    660, 562, 665, 613, 286, 286, 768, 657, 620, 620, 287, 563, 563, 563, 289, 561, 620, 620, 620, 620, 339, 565, 724,
    290, 754, 907, 359, 620, 797, 620, 917, 802, 303, 724, 657, 579, 724, 608, 653, 744, 775, 275, 677, 724, 906, 741,
    616, 775, 751, 643, 620, 658, 660, 705, 816, 690, 811, 773, 275, 705, 648, 562, 610, 303, 587, 648, 604, 543, 616,
    562, 543, 610, 617, 303, 657, 600, 652, 616, 563, 608, 707, 585, 563, 657, 531, 587, 806, 610, 785, 894, 303, 587,
    608, 587, 894, 709, 658, 657, 692, 822, 692, 760, 894, 749, 760, 619, 751, 564, 660, 564, 706, 615, 803, 747, 620,
    620, 620, 620, 620, 620, 620, 620, 620, 620, 620, 620, 620, 620, 750, 658, 577, 261, 775, 471, 471, 657, 612, 744,
    906, 749, 585, 708, 744, 744};
constexpr std::array<SymbolWidth, 122> symbols = {{
    {0x2000, 545, 562}, {0x2001, 1091, 1119}, {0x2002, 500, 500}, {0x2003, 1000, 1000}, {0x2004, 334, 334},
    {0x2005, 250, 250}, {0x2006, 166, 166}, {0x2007, 648, 670}, {0x2008, 276, 290}, {0x2009, 182, 164},
    {0x200a, 91, 82}, {0x200b, 0, 0}, {0x2010, 358, 429}, {0x2011, 358, 429}, {0x2012, 648, 670}, {0x2013, 500, 500},
    {0x2014, 1000, 1000}, {0x2015, 1000, 1000}, {0x2016, 358, 456}, {0x2017, 452, 469}, {0x2018, 199, 228},
    {0x2019, 185, 214}, {0x201a, 199, 228}, {0x201b, 222, 238}, {0x201c, 381, 408}, {0x201d, 381, 407},
    {0x201e, 381, 407}, {0x201f, 449, 445}, {0x2020, 631, 605}, {0x2021, 540, 563}, {0x2022, 562, 496},
    {0x2023, 562, 496}, {0x2024, 267, 286}, {0x2025, 548, 548}, {0x2026, 821, 806}, {0x2027, 267, 286},
    {0x202f, 182, 164}, {0x2030, 1045, 1077}, {0x2031, 1268, 1311}, {0x2032, 220, 259}, {0x2033, 405, 461},
    {0x2034, 589, 663}, {0x2035, 220, 259}, {0x2036, 405, 461}, {0x2037, 589, 663}, {0x2038, 449, 521},
    {0x2039, 358, 381}, {0x203a, 358, 381}, {0x203b, 631, 760}, {0x203c, 557, 618}, {0x203d, 507, 544},
    {0x203e, 540, 509}, {0x203f, 812, 839}, {0x2040, 812, 839}, {0x2041, 449, 469}, {0x2042, 722, 752},
    {0x2043, 562, 496}, {0x2044, 274, 273}, {0x2070, 440, 455}, {0x2071, 170, 179}, {0x2074, 436, 450},
    {0x2075, 415, 427}, {0x2076, 425, 438}, {0x2077, 388, 396}, {0x2078, 428, 437}, {0x2079, 425, 438},
    {0x207a, 439, 445}, {0x207b, 439, 445}, {0x207c, 439, 445}, {0x207d, 253, 269}, {0x207e, 253, 269},
    {0x207f, 403, 412}, {0x2080, 440, 455}, {0x2081, 313, 318}, {0x2082, 420, 423}, {0x2083, 430, 438},
    {0x2084, 436, 450}, {0x2085, 415, 427}, {0x2086, 425, 438}, {0x2087, 388, 396}, {0x2088, 428, 437},
    {0x2089, 425, 438}, {0x208a, 439, 445}, {0x208b, 439, 445}, {0x208c, 439, 445}, {0x208d, 253, 269},
    {0x208e, 253, 269}, {0x2090, 379, 386}, {0x2091, 392, 396}, {0x2092, 401, 407}, {0x2093, 368, 380},
    {0x2094, 449, 472}, {0x2095, 405, 414}, {0x2096, 369, 385}, {0x2097, 169, 178}, {0x2098, 592, 605},
    {0x2099, 403, 412}, {0x209a, 411, 420}, {0x209b, 361, 372}, {0x209c, 251, 259}, {0x20ac, 665, 679},
    {0x2113, 449, 522}, {0x2190, 955, 955}, {0x2191, 955, 955}, {0x2192, 955, 955}, {0x2193, 955, 955},
    {0x2194, 1341, 1341}, {0x21d2, 955, 955}, {0x21d4, 1341, 1341}, {0x2202, 631, 658}, {0x2205, 685, 688},
    {0x2206, 676, 724}, {0x220f, 722, 755}, {0x2211, 631, 710}, {0x2212, 659, 673}, {0x221a, 631, 660},
    {0x221e, 930, 966}, {0x222b, 278, 337}, {0x2248, 659, 673}, {0x2260, 659, 673}, {0x2264, 659, 673},
    {0x2265, 659, 673}}};
// clang-format on

constexpr double mono_width = 0.6;

double symbol_width(char32_t c, bool semibold) {
  const auto found = std::lower_bound(symbols.begin(), symbols.end(), c,
                                      [](const SymbolWidth& s, char32_t v) { return s.character < v; });
  if (found != symbols.end() && found->character == c) return semibold ? found->semibold : found->regular;
  return c >= 0x2e80 ? 1000 : 640;  // full-width scripts and emoji; otherwise about a capital letter
}

double character_width(char32_t c, bool semibold) {
  const auto pick = [&](const auto& regular, const auto& bold, char32_t first) -> double {
    return semibold ? bold[c - first] : regular[c - first];
  };
  if (c < 0x20) return 0;
  if (c <= 0x7e) return pick(ascii_regular, ascii_semibold, 0x20);
  if (c >= 0xa0 && c <= 0xff) return pick(latin_regular, latin_semibold, 0xa0);
  if (c >= 0x300 && c <= 0x36f) return 0;  // combining accents
  if (c >= 0x370 && c <= 0x3ff) return pick(greek_regular, greek_semibold, 0x370);
  return symbol_width(c, semibold);
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

constexpr char32_t replacement = 0xfffd;

}  // namespace

double text_width_of(std::string_view utf8, double size, FontFace face) {
  double width = 0;
  while (!utf8.empty()) {
    const char32_t c = take_character(utf8);
    width += face == FontFace::mono ? mono_width * 1000 : character_width(c, face == FontFace::semibold);
  }
  return width * size / 1000;
}

char32_t take_character(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const int length = lead < 0x80                   ? 1
                     : lead >= 0xc2 && lead < 0xe0 ? 2
                     : lead >= 0xe0 && lead < 0xf0 ? 3
                     : lead >= 0xf0 && lead < 0xf5 ? 4
                                                   : 0;
  char32_t c = length == 1 ? lead : length > 1 ? lead & (0xffu >> (length + 1)) : replacement;
  bool valid = length > 0 && text.size() >= static_cast<std::size_t>(length);
  for (int i = 1; valid && i < length; ++i) {
    valid = continues(text[i]);
    c = (c << 6) | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  // Overlong forms, surrogates and values past the end of Unicode are not characters.
  valid = valid && !(length == 3 && c < 0x800) && !(length == 4 && (c < 0x10000 || c > 0x10ffff)) &&
          !(c >= 0xd800 && c <= 0xdfff);
  text.remove_prefix(valid ? length : 1);
  return valid ? c : replacement;
}

void append_utf8(std::string& text, char32_t c) {
  const auto push = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return push(c);
  if (c < 0x800) {
    push(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      push(0xe0 | c >> 12);
    } else {
      push(0xf0 | c >> 18);
      push(0x80 | (c >> 12 & 0x3f));
    }
    push(0x80 | (c >> 6 & 0x3f));
  }
  push(0x80 | (c & 0x3f));
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char32_t c = take_character(text);
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff;
    append_utf8(out, control ? replacement : c);
  }
  return out;
}

}  // namespace afterglow
