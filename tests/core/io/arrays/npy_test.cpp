// NumPy's files: whole numbers of every width are read, archives hold what numpy.load finds, damage is told.
#include "core/io/arrays/npy.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

TEST_F(Npy, TellsWhatIsWrong) {
  const auto refused = [&](const std::string& content) {
    return message_of(ExitCode::bad_input, [&] { read_npy_integers(put("b.npy", content)); });
  };
  const std::string good = npy("<i8", "(1,)", bytes_of<std::int64_t>({1}));
  EXPECT_THAT(refused(npy("<f4", "(1,)", bytes_of<float>({1}))), HasSubstr("astype"));
  EXPECT_THAT(refused(npy("<i8", "(2,)", bytes_of<std::int64_t>({1}))), HasSubstr("16 bytes"));
  EXPECT_THAT(refused(npy("<i8", "(4000000000000,)", "")), HasSubstr("memory"));
  EXPECT_THAT(refused("text"), HasSubstr("no .npy file"));
  std::string fortran = good;
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
