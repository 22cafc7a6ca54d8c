// A bump arena in a back end's memory: a step allocates by moving a pointer and the next step starts again at the same
// addresses. What a step no longer needs it may hand out again. It grows in blocks, each a quarter of what is there;
// when a rewind finds several blocks they become one that is as large as what they were asked for, so that from the
// third step on nothing is allocated and every tensor of a step keeps its address.
#pragma once
#include <cstddef>
#include <vector>

#include "core/backend/backend.h"

namespace afterglow {

class Arena : Immovable {
  struct Block {
    std::byte* address;
    std::size_t size;
  };

 public:
  explicit Arena(Backend& backend) : backend_(&backend) {}
  ~Arena();

  /// Uninitialised; valid until the next rewind. Rows lie side by side, or `row_stride` elements apart.
  Tensor allocate(const Shape& shape, DType dtype, std::int64_t row_stride = 0);
  void rewind();
  /// How far the pointer has moved since the last rewind.
  struct Mark {
    std::size_t block = 0, offset = 0;
  };
  Mark mark() const { return {block_, offset_}; }
  /// Bytes between two marks, the earlier one first.
  std::size_t bytes_between(const Mark& from, const Mark& to) const;
  /// Hands out what lies between two marks before anything new. The caller knows that no one reads it any more.
  void recycle(const Mark& from, const Mark& to);
  /// What has been handed out at a moment.
  struct Moment {
    Mark mark;
    std::size_t taken = 0;
    std::vector<Block> free;
  };
  Moment now() const;
  /// Takes back all that was handed out since then. The caller knows that no one reads it any more.
  void go_back(const Moment& then);
  bool lies_between(const void* address, const Mark& from, const Mark& to) const;
  /// Gives all memory back; what was handed out is gone.
  void release();
  /// Fills every floating tensor handed out with NaN, so that a kernel that leaves an element unwritten shows (tests).
  void set_poison(bool poison) { poison_ = poison; }
  std::size_t capacity() const;  ///< bytes held
  /// The most bytes in use since the last rewind, what lies free among them.
  std::size_t used() const { return used_; }
  Backend& backend() const { return *backend_; }

 private:
  void release_all();
  std::byte* advance(std::size_t bytes);
  /// Calls use(block) with every part of a block between two marks.
  template <class Use>
  void for_each_piece(const Mark& from, const Mark& to, const Use& use) const;

  Backend* backend_;
  std::vector<Block> blocks_;
  std::vector<Block> free_;           // to be handed out again
  std::size_t block_ = 0;             // the one that the pointer is in; those behind it are not in use
  std::size_t offset_ = 0;            // in that block
  std::size_t taken_ = 0, used_ = 0;  // how far the pointer has moved, now and at most
  bool poison_ = false;
};

}  // namespace afterglow
