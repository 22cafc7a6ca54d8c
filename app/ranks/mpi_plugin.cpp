// The processes that mpirun or srun has started, over MPI. The program loads this library only where there are several
// of them, so that a single process needs no MPI.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "app/ranks/plugin.h"

namespace afterglow {
namespace {

constexpr int bytes_at_once = 1 << 30;  // MPI takes counts as int

/// An error inside MPI ends all processes (MPI's default handler).
class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    int is_ready = 0;
    MPI_Initialized(&is_ready);
    if (is_ready == 0) MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiRanks() override {
    for (MPI_Win& window : windows_) MPI_Win_free(&window);
    MPI_Finalize();
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(int with, std::span<const std::byte> sent, std::span<std::byte> received) override {
    for (std::size_t done = 0; done < sent.size(); done += bytes_at_once) {
      const int count = static_cast<int>(std::min<std::size_t>(bytes_at_once, sent.size() - done));
      MPI_Sendrecv(sent.data() + done, count, MPI_BYTE, with, 0, received.data() + done, count, MPI_BYTE, with, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  std::vector<std::span<std::byte>> share(std::size_t bytes) override {
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    MPI_Comm_set_errhandler(here, MPI_ERRORS_RETURN);
    MPI_Win window = MPI_WIN_NULL;
    void* own = nullptr;
    int is_given = MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, here,
                                           static_cast<void*>(&own), &window) == MPI_SUCCESS;
    // All processes must use the same kind of exchange, so one that cannot share memory decides for all.
    MPI_Allreduce(MPI_IN_PLACE, &is_given, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    std::vector<std::span<std::byte>> memory(static_cast<std::size_t>(size_));
    if (is_given != 0) {
      windows_.push_back(window);
      for (int rank = 0; rank < size_; ++rank) memory[static_cast<std::size_t>(rank)] = memory_of(rank, here, window);
    }
    return memory;
  }
  void end_all(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  /// The shared memory of process `rank` in a window; empty where it runs on another machine.
  static std::span<std::byte> memory_of(int rank, MPI_Comm here, MPI_Win window) {
    MPI_Group all = MPI_GROUP_NULL, local = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_group(here, &local);
    int number = MPI_UNDEFINED;
    MPI_Group_translate_ranks(all, 1, &rank, local, &number);
    MPI_Group_free(&all);
    MPI_Group_free(&local);
    if (number == MPI_UNDEFINED) return {};
    MPI_Aint bytes = 0;
    int unit = 0;
    void* address = nullptr;
    MPI_Win_shared_query(window, number, &bytes, &unit, static_cast<void*>(&address));
    return {static_cast<std::byte*>(address), static_cast<std::size_t>(bytes)};
  }

  int rank_ = 0, size_ = 1;
  std::vector<MPI_Win> windows_;  // memory shared by the processes of this machine
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Ranks* afterglow_mpi_2() {
  return std::make_unique<MpiRanks>().release();
}

}  // namespace afterglow
