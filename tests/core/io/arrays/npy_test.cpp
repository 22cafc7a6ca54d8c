// NumPy's files: whole numbers of every width are read, archives hold what numpy.load finds, damage is reported.
#include "core/io/arrays/npy.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A file as numpy.save writes it.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  file += static_cast<char>(header.size());
  file += '\0';
  return file + header + data;
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

class Npy : public TemporaryFolder {};

TEST_F(Npy, ReadsWholeNumbersOfEveryWidth) {
  const auto read = [&](const std::string& content) { return read_npy_integers(put("a.npy", content)); };
  const WholeNumbers wide = read(npy("<i8", "(2, 2)", bytes_of<std::int64_t>({1, -2, 3, 40000000000})));
  EXPECT_THAT(wide.shape, ElementsAre(2, 2));
  EXPECT_THAT(wide.values, ElementsAre(1, -2, 3, 40000000000));
  EXPECT_THAT(read(npy("<i4", "(2,)", bytes_of<std::int32_t>({-7, 9}))).values, ElementsAre(-7, 9));
  EXPECT_THAT(read(npy("<u2", "(2,)", bytes_of<std::uint16_t>({50279, 0}))).values, ElementsAre(50279, 0));
  EXPECT_THAT(read(npy("|u1", "(3,)", bytes_of<std::uint8_t>({255, 1, 2}))).values, ElementsAre(255, 1, 2));
  EXPECT_THAT(read(npy("<u4", "()", bytes_of<std::uint32_t>({4000000000u}))).values, ElementsAre(4000000000));
}

TEST_F(Npy, ReadsOtherOrdersOfBytesAndAxes) {
  const WholeNumbers big = read_npy_integers(put("a.npy", npy(">i2", "(2,)", {"\x01\x02\xff\xfe", 4})));
  EXPECT_THAT(big.values, ElementsAre(258, -2));
  std::string fortran = npy("<i4", "(2, 3)", bytes_of<std::int32_t>({1, 4, 2, 5, 3, 6}));
  fortran.replace(fortran.find("False"), 5, "True ");
  const WholeNumbers turned = read_npy_integers(put("a.npy", fortran));
  EXPECT_THAT(turned.shape, ElementsAre(2, 3));
  EXPECT_THAT(turned.values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(Npy, ReadsArchivesThatItWrote) {
  const std::vector<std::int64_t> ids{1, 2, 3, 4}, mask{0, 1, 1, 1};
  const std::vector<float> other{0.5f};
  const std::vector<HostTensor> tensors{make_tensor("other", {1}, std::span<const float>(other)),
                                        make_tensor("input_ids", {2, 2}, std::span<const std::int64_t>(ids)),
                                        make_tensor("mask", {2, 2}, std::span<const std::int64_t>(mask))};
  const auto path = write_npz(file("a.npz"), tensors, Existing::replace);
  const auto arrays = read_npz_integers(path, {"input_ids", "mask", "absent"});
  ASSERT_EQ(arrays.size(), 2);
  EXPECT_EQ(arrays.at("input_ids").values, ids);
  EXPECT_EQ(arrays.at("mask").values, mask);
  write_npz(file("one.npz"), std::span(tensors).subspan(2), Existing::replace);
  EXPECT_EQ(read_npz_integers(file("one.npz"), {"input_ids"}).at("input_ids").values, mask) << "its only array";
}

// numpy.savez_compressed("c.npz", input_ids=np.array([[1, 2], [3, 4]]))
TEST_F(Npy, ReadsCompressedArchives) {
  const unsigned char content[] = {
      0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0xa0, 0x44, 0x4b, 0x5b, 0xff,
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0d, 0x00, 0x14, 0x00, 0x69, 0x6e, 0x70, 0x75, 0x74, 0x5f, 0x69, 0x64,
      0x73, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0xa0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x52, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e,
      0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93, 0x69, 0xa1, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54,
      0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67,
      0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x46, 0x3a, 0x0a, 0x46, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x64, 0x03, 0x2e, 0x46,
      0x06, 0x08, 0x60, 0x82, 0xd2, 0xcc, 0x50, 0x9a, 0x05, 0x4a, 0x03, 0x00, 0x50, 0x4b, 0x01, 0x02, 0x2d, 0x03, 0x2d,
      0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0xa0, 0x44, 0x4b, 0x5b, 0x52, 0x00, 0x00, 0x00, 0xa0, 0x00,
      0x00, 0x00, 0x0d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x00, 0x00, 0x00,
      0x00, 0x69, 0x6e, 0x70, 0x75, 0x74, 0x5f, 0x69, 0x64, 0x73, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x05, 0x06, 0x00,
      0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x3b, 0x00, 0x00, 0x00, 0x91, 0x00, 0x00, 0x00, 0x00, 0x00};
  const auto path = put("c.npz", std::string(content, content + sizeof content));
  const WholeNumbers read = read_npz_integers(path, {"input_ids"}).at("input_ids");
  EXPECT_THAT(read.shape, ElementsAre(2, 2));
  EXPECT_THAT(read.values, ElementsAre(1, 2, 3, 4));
  std::string damaged(content, content + sizeof content);
  for (std::size_t at = 0; at < damaged.size(); ++at) {
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    try {
      read_npz_integers(put("d.npz", damaged), {"input_ids"});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
    }
    damaged[at] = static_cast<char>(content[at]);
  }
}

TEST_F(Npy, TellsWhatIsWrong) {
  const auto refused = [&](const std::string& content) {
    return message_of(ExitCode::bad_input, [&] { read_npy_integers(put("b.npy", content)); });
  };
  const std::string good = npy("<i8", "(1,)", bytes_of<std::int64_t>({1}));
  EXPECT_THAT(refused(npy("<f4", "(1,)", bytes_of<float>({1}))), HasSubstr("astype"));
  EXPECT_THAT(refused(npy("<i8", "(2,)", bytes_of<std::int64_t>({1}))), HasSubstr("16 bytes"));
  EXPECT_THAT(refused(npy("<i8", "(4000000000000,)", "")), HasSubstr("memory"));
  EXPECT_THAT(refused("text"), HasSubstr("no .npy file"));
  std::string fortran = npy("<i8", "(1, 1, 1)", bytes_of<std::int64_t>({1}));
  fortran.replace(fortran.find("False"), 5, "True ");
  EXPECT_THAT(refused(fortran), HasSubstr("Fortran"));
  for (std::size_t i = 0; i < good.size();
       ++i) {  // cut anywhere, or one bit changed: an Error or numbers, never a crash
    EXPECT_THROW(read_npy_integers(put("b.npy", good.substr(0, i))), Error) << i;
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 16);
    try {
      read_npy_integers(put("b.npy", damaged));
    } catch (const Error&) {
    }
  }
}

// The places that a reader of zip archives goes to: the directory from the end, each member from there.
TEST_F(Npy, WritesAnArchiveWithoutCompression) {
  const std::vector<float> weights{1.5f, -2, 0.25f, 8, 9, 10};
  const std::vector<HostTensor> tensors{make_tensor("a.weight", {2, 3}, std::span<const float>(weights)),
                                        make_tensor("b", {2}, std::span<const std::int32_t>({7, 8}))};
  const auto path = write_npz(file("w.npz"), tensors, Existing::keep);
  const std::string archive = content_of(path);
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint32_t value = 0;
    std::memcpy(&value, archive.data() + at, size);
    return value;
  };
  const std::size_t end = archive.size() - 22;
  ASSERT_EQ(archive.substr(end, 4), "PK\x05\x06");
  EXPECT_EQ(number(end + 10, 2), 2u);
  std::size_t line = number(end + 16, 4);
  EXPECT_EQ(line + number(end + 12, 4), end);
  for (const char* name : {"a.weight.npy", "b.npy"}) {
    ASSERT_EQ(archive.substr(line, 4), "PK\x01\x02");
    EXPECT_EQ(archive.substr(line + 46, number(line + 28, 2)), name);
    const std::size_t local = number(line + 42, 4), data = local + 30 + number(local + 26, 2);
    ASSERT_EQ(archive.substr(local, 4), "PK\x03\x04");
    EXPECT_EQ(number(local + 14, 4), number(line + 16, 4)) << "checksums";
    EXPECT_EQ(archive.substr(data, 6), "\x93NUMPY");
    EXPECT_EQ((data + 10 + number(data + 8, 2) - data) % 64, 0u) << "numbers are aligned in their file";
    line += 46 + number(line + 28, 2);
  }
  const std::size_t numbers = archive.find(std::string(reinterpret_cast<const char*>(weights.data()), 24));
  EXPECT_NE(numbers, std::string::npos);
  EXPECT_NE(archive.find("'shape': (2,3,)"), std::string::npos);
  EXPECT_EQ(write_npz(file("w.npz"), tensors, Existing::keep).filename(), "w_2.npz");
}

}  // namespace
}  // namespace afterglow
