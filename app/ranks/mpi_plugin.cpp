// The processes that mpirun or srun has started, over MPI. The program loads this library only among several of them,
// so that it needs no MPI otherwise.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "app/ranks/plugin.h"

namespace afterglow {

namespace {

constexpr int bytes_at_once = 1 << 30;  // a count of MPI is an int

/// Errors of MPI itself end all processes, as MPI does by itself.
class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    int is_ready = 0;
    MPI_Initialized(&is_ready);
    if (is_ready == 0) MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiRanks() override { MPI_Finalize(); }
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
  void end_all(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Ranks* afterglow_mpi_1() {
  return std::make_unique<MpiRanks>().release();
}

}  // namespace afterglow
