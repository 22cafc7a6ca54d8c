// Safetensors files: round trips, the exact bytes of the format, golden files, and every kind of damage.
#include "core/io/safetensors.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/core/io/temporary_folder.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/folders.h"
#include "tests/support/tensors.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A file from a header text and the number of data bytes, whatever they claim.
std::string raw_file(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string content(8, '\0');
  std::memcpy(content.data(), &length, 8);
  return content + header + std::string(data_bytes, '\1');
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TensorFile example() {
  const float infinity = std::numeric_limits<float>::infinity();
  TensorFile file;
  file.metadata = {{"format", "afterglow"}, {"text", "Gruß \"λ\"\n"}};
  file.tensors = {tensor_of("w", {2, 3}, std::vector<float>{1, -2.5f, std::nanf("7"), infinity, -0.0f, 1e-45f}),
                  tensor_of("scalar", {}, std::vector<double>{0.1}),
                  tensor_of("empty", {0, 5}, std::vector<double>{}),
                  tensor_of("steps", {3}, std::vector<std::int64_t>{0, -1, std::int64_t{1} << 60}),
                  tensor_of("i", {1}, std::vector<std::int32_t>{-7}),
                  tensor_of("bytes", {5}, std::vector<std::uint8_t>{0, 1, 2, 254, 255})};
  return file;
}

class Safetensors : public TemporaryFolder {
 protected:
  std::string refusal(const std::string& content) {
    const fs::path path = put("bad.safetensors", content);
    const std::string message = message_of(ExitCode::bad_input, [&] { read_safetensors(path); });
    EXPECT_THAT(message, HasSubstr("bad.safetensors"));
    return message;
  }
};

TEST_F(Safetensors, ReadsBackEveryBit) {
  const TensorFile file = example();
  write_safetensors(folder_ / "a", file);
  const TensorFile back = read_safetensors(folder_ / "a");
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const HostTensor& tensor : file.tensors) {
    SCOPED_TRACE(tensor.name);
    const HostTensor& other = require_tensor(back, tensor.name, "a");
    EXPECT_EQ(other.type, tensor.type);
    EXPECT_EQ(other.shape, tensor.shape);
    EXPECT_EQ(other.bytes, tensor.bytes);
  }
}

TEST_F(Safetensors, BytesDoNotDependOnTheOrderOfTensors) {
  TensorFile file = example();
  write_safetensors(folder_ / "a", file);
  std::reverse(file.tensors.begin(), file.tensors.end());
  write_safetensors(folder_ / "b", file);
  EXPECT_EQ(content_of(folder_ / "a"), content_of(folder_ / "b"));
}

TEST_F(Safetensors, WritesTheFormatAsSpecified) {
  TensorFile file;
  file.metadata = {{"k", "v"}};
  file.tensors = {tensor_of("u", {1}, std::vector<std::uint8_t>{9}), tensor_of("b", {1}, std::vector<float>{1}),
                  tensor_of("a", {1}, std::vector<float>{2})};
  write_safetensors(folder_ / "a", file);
  const std::string content = content_of(folder_ / "a");
  std::string header = "{\"__metadata__\":{\"k\":\"v\"}," + entry("a", "F32", "[1]", "[0,4]") + "," +
                       entry("b", "F32", "[1]", "[4,8]") + "," + entry("u", "U8", "[1]", "[8,9]") + "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  ASSERT_EQ(content.size(), 8 + header.size() + 9);
  EXPECT_EQ(content.substr(8, header.size()), header);
  EXPECT_EQ(content.substr(8 + header.size()), std::string("\0\0\0\x40\0\0\x80\x3f\x09", 9));
}

TEST_F(Safetensors, AnEmptyFileIsValid) {
  write_safetensors(folder_ / "a", {});
  EXPECT_EQ(content_of(folder_ / "a"), raw_file("{}      ", 0));
  EXPECT_TRUE(read_safetensors(folder_ / "a").tensors.empty());
}

TEST_F(Safetensors, ReadsEveryGoldenFile) {
  int files = 0;
  for (const auto& item : fs::directory_iterator(golden_folder())) {
    if (item.path().extension() != ".safetensors") continue;
    SCOPED_TRACE(item.path().filename());
    const TensorFile file = read_safetensors(item.path());
    EXPECT_EQ(file.metadata.at("format"), "afterglow-golden/1");
    int outputs = 0;
    for (const HostTensor& tensor : file.tensors) {
      if (file.metadata.at("outputs").find('"' + tensor.name + '"') == std::string::npos) continue;
      EXPECT_EQ(tensor.type, StoredType::f64);
      ++outputs;
    }
    EXPECT_GT(outputs, 0);
    write_safetensors(folder_ / "copy", file);
    EXPECT_EQ(read_safetensors(folder_ / "copy").tensors.size(), file.tensors.size());
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST_F(Safetensors, TensorsComeInTheOrderOfTheirData) {
  const fs::path path = put(
      "a", raw_file("{" + entry("late", "U8", "[2]", "[1,3]") + "," + entry("early", "U8", "[1]", "[0,1]") + "}", 3));
  const TensorFile file = read_safetensors(path);
  ASSERT_EQ(file.tensors.size(), 2);
  EXPECT_EQ(file.tensors[0].name, "early");
  EXPECT_EQ(file.find("missing"), nullptr);
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { require_tensor(file, "erly", "a"); }),
              HasSubstr("did you mean 'early'?"));
}

TEST_F(Safetensors, RefusesDamagedLengths) {
  EXPECT_THAT(refusal(""), HasSubstr("too short"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("too short"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), AllOf(HasSubstr("18446744073709551615"), HasSubstr("does not fit")));
  EXPECT_THAT(refusal(raw_file("{}", 0).substr(0, 9)), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(std::string("step,loss\n1,2\n2,1\n")), HasSubstr("no safetensors file"));
}

TEST_F(Safetensors, RefusesWhatIsNotAHeader) {
  EXPECT_THAT(refusal(raw_file("", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(raw_file("{\"a\":", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(raw_file("{} x", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(raw_file("{\"\xff\":{}}", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(raw_file("[]", 0)), HasSubstr("an object should be"));
  EXPECT_THAT(refusal(raw_file("null", 0)), HasSubstr("an object should be"));
  EXPECT_THAT(refusal(raw_file(std::string(100000, '['), 0)), HasSubstr("a list where an object"));
  EXPECT_THAT(refusal(raw_file("{\"a\":" + std::string(100000, '{'), 0)), HasSubstr("not valid JSON"));
}

TEST_F(Safetensors, RefusesDamagedShapesAndTypes) {
  const auto with_shape = [](const std::string& shape) {
    return raw_file("{" + entry("x", "F32", shape, "[0,8]") + "}", 8);
  };
  EXPECT_THAT(refusal(with_shape("[-2]")), AllOf(HasSubstr("'x', field 'shape'"), HasSubstr("negative number -2")));
  EXPECT_THAT(refusal(with_shape("[2.0]")), HasSubstr("fractional"));
  EXPECT_THAT(refusal(with_shape("[3]")), AllOf(HasSubstr("takes 12 bytes"), HasSubstr("hold 8")));
  EXPECT_THAT(refusal(with_shape("[4611686018427387904,4]")), HasSubstr("larger than any memory"));
  EXPECT_THAT(refusal(with_shape("[18446744073709551615]")), HasSubstr("larger than any memory"));
  EXPECT_THAT(refusal(with_shape("[99999999999999999999]")), HasSubstr("too large"));
  EXPECT_THAT(refusal(with_shape("[[2]]")), HasSubstr("a list where whole numbers"));
  EXPECT_THAT(refusal(with_shape("\"2\"")), HasSubstr("the text '2'"));
  EXPECT_THAT(refusal(with_shape("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]")),
              HasSubstr("32 axes"));
}

TEST_F(Safetensors, RefusesDamagedOffsets) {
  const auto with = [](const std::string& first, const std::string& second, std::size_t bytes) {
    return raw_file("{" + entry("x", "U8", "[4]", first) + "," + entry("y", "U8", "[4]", second) + "}", bytes);
  };
  EXPECT_THAT(refusal(with("[0,4]", "[8,4]", 8)), HasSubstr("8 to 4 runs backwards"));
  EXPECT_THAT(refusal(with("[0,4]", "[2,6]", 6)), AllOf(HasSubstr("'y'"), HasSubstr("overlapping")));
  EXPECT_THAT(refusal(with("[0,4]", "[0,4]", 4)), HasSubstr("overlapping"));
  EXPECT_THAT(refusal(with("[0,4]", "[5,9]", 9)), HasSubstr("with a gap"));
  EXPECT_THAT(refusal(with("[0,4]", "[4,8]", 7)), HasSubstr("beyond the 7 bytes"));
  EXPECT_THAT(refusal(with("[0,4]", "[4,8]", 9)), HasSubstr("1 bytes at the end belong to no tensor"));
  EXPECT_THAT(refusal(with("[0,4]", "[4]", 8)), HasSubstr("fewer than two"));
  EXPECT_THAT(refusal(with("[0,4]", "[4,8,9]", 8)), HasSubstr("field 'data_offsets'"));
  EXPECT_THAT(refusal(with("[0,4]", "[4,18446744073709551615]", 8)), HasSubstr("beyond"));
  EXPECT_THAT(refusal(with("[0,4]", "null", 8)), HasSubstr("null"));
}

TEST_F(Safetensors, RefusesDoubleMissingAndUnknownFields) {
  const std::string x = entry("x", "U8", "[0]", "[0,0]");
  EXPECT_THAT(refusal(raw_file("{" + x + "," + x + "}", 0)), HasSubstr("tensor 'x' is there twice"));
  EXPECT_THAT(refusal(raw_file("{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0)), HasSubstr("'dtype' is there twice"));
  EXPECT_THAT(refusal(raw_file("{\"x\":{\"dtype\":\"U8\",\"shape\":[]}}", 1)), HasSubstr("no field 'data_offsets'"));
  EXPECT_THAT(refusal(raw_file("{\"x\":{\"stride\":1}}", 0)), HasSubstr("no field 'dtype'"));
  EXPECT_THAT(refusal(raw_file("{\"x\":3}", 0)), HasSubstr("the number 3 where an object"));
}

TEST_F(Safetensors, ReadsWhatTheFormatHasBesideTensors) {
  const std::string x =
      R"("x":{"dtype":"U8","note":{"a":[1,{"b":null}],"dtype":-2.5},"shape":[1],"more":[],"data_offsets":[0,1]})";
  const TensorFile file = read_safetensors(
      put("good.safetensors", raw_file("{\"__metadata__\":null," + x + "," + entry("y", "F8_E4M3", "[9]", "[1,4]") +
                                           "," + entry("z", "U8", "[2]", "[4,6]") + "}",
                                       6)));
  EXPECT_EQ(require_tensor(file, "x", "a").shape, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(require_tensor(file, "z", "a").bytes.size(), 2u);
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { require_tensor(file, "y", "a"); }),
              AllOf(HasSubstr("'y'"), HasSubstr("'F8_E4M3'"), HasSubstr("convert")));
  EXPECT_THAT(refusal(raw_file("{\"__metadata__\":null,\"__metadata__\":{}}", 0)), HasSubstr("twice"));
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
}

TEST_F(Safetensors, RefusesMetadataThatIsNotText) {
  EXPECT_THAT(refusal(raw_file("{\"__metadata__\":{\"a\":1}}", 0)), HasSubstr("__metadata__ field 'a': the number 1"));
  EXPECT_THAT(refusal(raw_file("{\"__metadata__\":{\"a\":{}}}", 0)), HasSubstr("an object where a text"));
  EXPECT_THAT(refusal(raw_file("{\"__metadata__\":\"a\"}", 0)), HasSubstr("the text 'a'"));
  EXPECT_THAT(refusal(raw_file("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0)), HasSubstr("twice"));
  EXPECT_THAT(refusal(raw_file("{\"__metadata__\":{},\"__metadata__\":{}}", 0)), HasSubstr("twice"));
}

TEST_F(Safetensors, ForeignTextIsSafeToShow) {
  const std::string message =
      refusal(raw_file("{" + entry("a\\u001b[31m" + std::string(5000, 'n'), "U8", "[]", "[0,0]") + "}", 0));
  EXPECT_THAT(message, HasSubstr("'a?[31mnnn"));
  EXPECT_LT(message.size(), 500);
}

TEST_F(Safetensors, RefusesMissingFilesAndFolders) {
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read_safetensors(folder_ / "none"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read_safetensors(folder_); }), HasSubstr("folder"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [] { read_safetensors("/dev/zero"); }), HasSubstr("device"));
}

TEST_F(Safetensors, WriterRefusesWhatCannotBeRead) {
  const auto writing = [&](const TensorFile& file) {
    return message_of(ExitCode::failure, [&] { write_safetensors(folder_ / "a", file); });
  };
  const HostTensor one = tensor_of("x", {1}, std::vector<float>{1});
  EXPECT_THAT(writing({{}, {one, one}}), HasSubstr("two tensors are called 'x'"));
  EXPECT_THAT(writing({{}, {tensor_of("__metadata__", {1}, std::vector<float>{1})}}), HasSubstr("rename it"));
  EXPECT_THAT(writing({{{"a", "\xff"}}, {}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(writing({{}, {HostTensor{"x", StoredType::f32, {2}, one.bytes}}}), HasSubstr("'x' has 4 bytes"));
  EXPECT_THAT(writing({{}, {HostTensor{"x", StoredType::f32, {-1, -1}, one.bytes}}}), HasSubstr("'x' has 4 bytes"));
  EXPECT_THAT(message_of(ExitCode::failure, [] { tensor_of("x", {2}, std::vector<float>{1}); }), HasSubstr("1 values"));
  EXPECT_THAT(names(), ElementsAre());
}

/// One random piece of damage: bits flipped, the end cut off or repeated, or digits exchanged.
std::string damaged(std::string content, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::size_t header_end = 600;  // where the structure is: most of the damage goes there
  const std::size_t reach = below(4) == 0 ? content.size() : std::min(content.size(), header_end);
  switch (below(4)) {
    case 0:
      content.resize(below(content.size()));
      break;
    case 1:
      content += content.substr(below(content.size()));
      break;
    case 2:
      for (std::size_t n = 1 + below(4); n > 0; --n) content[below(reach)] ^= static_cast<char>(1u << below(8));
      break;
    default:
      for (std::size_t n = 1 + below(3); n > 0; --n) content[below(reach)] = "0123456789[]{},:\"-e"[below(19)];
  }
  return content;
}

TEST_F(Safetensors, DamageNeverCrashesNorCostsMoreThanTheFile) {
  write_safetensors(folder_ / "good", example());
  const std::string good = content_of(folder_ / "good");
  std::mt19937 random(20240607);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::string content = damaged(good, random);
    const fs::path path = put("bad", content);
    start_counting_memory();
    try {
      read_safetensors(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      ++refused;
    }
    ASSERT_LE(max_memory_since_start(), 2 * content.size() + 32768) << "round " << round;
  }
  EXPECT_GT(refused, 2500);
}

TEST_F(Safetensors, ALargeFileCostsItsSize) {
  TensorFile file;
  file.tensors = {tensor_of("x", {1000, 1000}, std::vector<double>(1000000, 0.5))};
  write_safetensors(folder_ / "large", file);
  start_counting_memory();
  EXPECT_EQ(read_safetensors(folder_ / "large").tensors.size(), 1);
  EXPECT_LE(max_memory_since_start(), 8000000 + 65536);
}

}  // namespace
}  // namespace afterglow
