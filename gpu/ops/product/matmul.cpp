// c = alpha op(a) op(b) + beta c. Small products (product.cu), thin ones (thin_product.cu) and, on warp groups, large
// exact ones (split.cu) use own kernels, the others cuBLAS; large projections in tf32 and bf16 use operands rounded
// before (rounded.cu).
#include <cublas_v2.h>

#include "core/io/error.h"
#include "gpu/runtime/cuda_backend.h"

namespace afterglow {
namespace {

/// An operand in the form that cuBLAS takes.
struct Operand {
  const void* data;
  int stride;
};

std::size_t aligned_bf16_bytes(const Tensor& matrix) {
  return (static_cast<std::size_t>(matrix.elements()) * 2 + 255) / 256 * 256;
}

void check_blas(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check_cuda(cudaGetLastError(), "multiplying matrices");
  throw Error(ExitCode::no_gpu, std::string("cuBLAS failed to multiply matrices (") + cublasGetStatusString(status) +
                                    "); start again from the last snapshot, or use --device cpu");
}

}  // namespace

Plan CudaBackend::plan(const ProductCall& call) const {
  const Tensor &a = call.a, &b = call.b;
  if (precision_ == Precision::fp32) {
    const std::int64_t depth = a.columns() == b.columns() || a.columns() == b.rows() ? a.columns() : a.rows();
    return {.operands = static_cast<std::int64_t>(products_.split_product_operands(a, b, depth))};
  }
  if (precision_ != Precision::bf16) return {};
  return {.operands = static_cast<std::int64_t>(aligned_bf16_bytes(a) + aligned_bf16_bytes(b))};
}

// cuBLAS is column-major: a row-major c = op(a) op(b) is its c^T = op(b)^T op(a)^T.
void CudaBackend::gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                       const Tensor& c) {
  const auto rows = static_cast<int>(c.rows()), columns = static_cast<int>(c.columns());
  const auto depth = static_cast<int>(transpose_a ? a.rows() : a.columns());
  if (rows == 0 || columns == 0) return;
  const bool is_plain = alpha == 1.0 && (beta == 0.0 || beta == 1.0), is_narrow = b.dtype == DType::bf16;
  const Grad to{c, beta == 1.0};
  if (!transpose_a && transpose_b && alpha == 1.0 && beta == 0.0 && few_row_projections(*this, a, {&b, 1}, {}, {&c, 1}))
    return;
  if (is_narrow && precision_ != Precision::bf16)
    return gemm(transpose_a, transpose_b, alpha, a, widened({&b, 1}).front(), beta, c);
  // Only cuBLAS takes a narrow b as it is.
  if (!is_narrow && ((is_plain && products_.thin_product(transpose_a, transpose_b, a, b, to)) ||
                     products_.tile_product(transpose_a, transpose_b, alpha, a, b, beta, c) ||
                     (is_plain && products_.split_product(transpose_a, transpose_b, a, b, to))))
    return;
  const auto alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
  stream();
  Operand left{a.data, static_cast<int>(a.row_stride)}, right{b.data, static_cast<int>(b.row_stride)};
  const bool rounded = precision_ == Precision::bf16 && depth > 0;
  if (rounded) {
    const std::size_t left_bytes = aligned_bf16_bytes(a);
    auto* memory = static_cast<std::byte*>(operand_memory(left_bytes + aligned_bf16_bytes(b)));
    round_to_bf16(a, memory);
    left = {memory, static_cast<int>(a.columns())};
    if (!is_narrow) {
      round_to_bf16(b, memory + left_bytes);
      right = {memory + left_bytes, static_cast<int>(b.columns())};
    }
  }
  const cudaDataType_t type = rounded ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t compute = rounded                         ? CUBLAS_COMPUTE_32F
                                      : precision_ == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                      : CUBLAS_COMPUTE_32F_PEDANTIC;
  check_blas(cublasGemmEx(context_->blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                          transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, columns, rows, depth, &alpha32, right.data, type,
                          right.stride, left.data, type, left.stride, &beta32, c.data, CUDA_R_32F,
                          static_cast<int>(c.row_stride), compute, CUBLAS_GEMM_DEFAULT));
}

void ProductPlanner::multiply_halves(bool transpose_a, bool transpose_b, const float* alpha, const device::Halves& a,
                                     const device::Halves& b, const float* beta, const Tensor& c) {
  backend_.stream();
  const cudaDataType_t type = backend_.precision() == Precision::bf16 ? CUDA_R_16BF : CUDA_R_16F;
  check_blas(cublasSetPointerMode(backend_.blas(), CUBLAS_POINTER_MODE_DEVICE));
  const cublasStatus_t status = cublasGemmEx(
      backend_.blas(), transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
      static_cast<int>(c.columns()), static_cast<int>(c.rows()), static_cast<int>(transpose_a ? a.rows : a.columns),
      alpha, b.data, type, static_cast<int>(b.stride), a.data, type, static_cast<int>(a.stride), beta, c.data,
      c.dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F, static_cast<int>(c.row_stride), CUBLAS_COMPUTE_32F,
      CUBLAS_GEMM_DEFAULT);
  check_blas(cublasSetPointerMode(backend_.blas(), CUBLAS_POINTER_MODE_HOST));
  check_blas(status);
}

}  // namespace afterglow
