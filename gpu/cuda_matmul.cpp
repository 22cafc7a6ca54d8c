// Matrix products by cuBLAS.
#include <cublas_v2.h>

#include "core/io/error.h"
#include "gpu/cuda_backend.h"

namespace afterglow {

namespace {
cublasComputeType_t compute_type(Precision precision) {
  switch (precision) {
    case Precision::tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case Precision::bf16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    case Precision::fp32:
      break;
  }
  return CUBLAS_COMPUTE_32F_PEDANTIC;
}
}  // namespace

// cuBLAS counts columns first: a row-major c = op(a) op(b) is its c^T = op(b)^T op(a)^T.
void CudaBackend::gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                       const Tensor& c) {
  const auto rows = static_cast<int>(c.rows()), columns = static_cast<int>(c.columns());
  const auto depth = static_cast<int>(transpose_a ? a.rows() : a.columns());
  if (rows == 0 || columns == 0) return;
  const auto alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
  stream();
  const cublasStatus_t status = cublasGemmEx(
      blas_, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, columns, rows, depth,
      &alpha32, b.data, CUDA_R_32F, static_cast<int>(b.row_stride), a.data, CUDA_R_32F, static_cast<int>(a.row_stride),
      &beta32, c.data, CUDA_R_32F, static_cast<int>(c.row_stride), compute_type(precision_), CUBLAS_GEMM_DEFAULT);
  if (status != CUBLAS_STATUS_SUCCESS) {
    check_cuda(cudaGetLastError(), "multiplying matrices");
    throw Error(ExitCode::no_gpu, std::string("cuBLAS failed to multiply matrices (") + cublasGetStatusString(status) +
                                      "); start again from the last snapshot, or use --device cpu");
  }
}

}  // namespace afterglow
