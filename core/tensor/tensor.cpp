// Views of tensors.
#include "core/tensor/tensor.h"

#include "core/io/error.h"

namespace afterglow {
namespace {

struct TypeInfo {
  const char* name;
  std::size_t size;
};
/// In the order of DType.
constexpr TypeInfo types[] = {{"float32", 4}, {"float64", 8}, {"int32", 4}, {"uint8", 1}, {"bfloat16", 2}};

}  // namespace

std::size_t size_of(DType dtype) { return types[static_cast<std::size_t>(dtype)].size; }

const char* name_of(DType dtype) { return types[static_cast<std::size_t>(dtype)].name; }

Tensor Tensor::reshaped(const Shape& extents) const {
  if (!contiguous() || extents.elements() != elements())
    throw Error(ExitCode::failure, "cannot view ", shape.text(), " as ", extents.text(),
                contiguous() ? ": the numbers of elements differ" : ": the rows are strided");
  return Tensor(data, extents, dtype);
}

Tensor Tensor::column_range(std::int64_t begin, std::int64_t count) const {
  if (begin < 0 || count < 0 || begin + count > columns())
    throw Error(ExitCode::failure, "columns ", begin, " to ", begin + count, " are outside ", shape.text());
  Tensor view(static_cast<std::byte*>(data) + begin * static_cast<std::int64_t>(size_of(dtype)), shape.with_last(count),
              dtype);
  view.row_stride = row_stride;
  return view;
}

Tensor Tensor::at(std::int64_t i) const {
  if (!contiguous() || shape.rank() == 0 || i < 0 || i >= shape[0])
    throw Error(ExitCode::failure, "index ", i, " is outside the first axis of ", shape.text());
  const Shape inner = shape.tail();
  return Tensor(static_cast<std::byte*>(data) + i * inner.elements() * static_cast<std::int64_t>(size_of(dtype)), inner,
                dtype);
}

}  // namespace afterglow
