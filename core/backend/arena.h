// A bump arena in a back end's memory: a step allocates by moving a pointer and the next step starts again at the same
// addresses. It grows in blocks, each a quarter of what is there; when a rewind finds several blocks they become one
// that is as large as what they were asked for, so that from the third step on nothing is allocated and every tensor of
// a step keeps its address.
#pragma once
#include <cstddef>
#include <vector>

#include "core/backend/backend.h"

namespace afterglow {

class Arena {
 public:
  explicit Arena(Backend& backend) : backend_(&backend) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Uninitialised; valid until the next rewind.
  Tensor allocate(const Shape& shape, DType dtype);
  void rewind();
  /// Gives all memory back; what was handed out is gone.
  void release();
  /// Fills every floating tensor handed out with NaN, so that a kernel that leaves an element unwritten shows (tests).
  void set_poison(bool poison) { poison_ = poison; }
  std::size_t capacity() const;               ///< bytes held
  std::size_t used() const { return used_; }  ///< bytes handed out since the last rewind
  Backend& backend() const { return *backend_; }

 private:
  struct Block {
    std::byte* address;
    std::size_t size;
  };
  void release_all();

  Backend* backend_;
  std::vector<Block> blocks_;
  std::size_t offset_ = 0;  // in the last block
  std::size_t used_ = 0;
  bool poison_ = false;
};

}  // namespace afterglow
