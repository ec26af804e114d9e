//===- declarations.cpp - check against NVIDIA's headers ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Not part of any build: `make setup-cuda` compiles it, with NVIDIA's headers.
// Each function of api.h has the parameters that it has there, and each
// constant its value.
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/api.h"
#include "cuda/driver/api.h"

#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>
#include <type_traits>

namespace {
/// Whether a caller may take the one for the other: pointers to what both name
/// in their own way, enumerations for integers of their size, and structures of
/// one size.
template <typename Own, typename Theirs> constexpr bool isSame() {
  if constexpr (std::is_same_v<Own, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Own> && std::is_pointer_v<Theirs>) {
    using A = std::remove_pointer_t<Own>;
    using B = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_const_v<A> != std::is_const_v<B>)
      return false;
    else if constexpr (std::is_class_v<B> || std::is_void_v<B>)
      return std::is_class_v<A> || std::is_void_v<A>;
    else
      return isSame<std::remove_const_t<A>, std::remove_const_t<B>>();
  } else if constexpr (std::is_class_v<Own> && std::is_class_v<Theirs>) {
    return sizeof(Own) == sizeof(Theirs) && alignof(Own) == alignof(Theirs);
  } else if constexpr (std::is_enum_v<Theirs>) {
    return std::is_integral_v<Own> && sizeof(Own) == sizeof(Theirs);
  } else if constexpr (std::is_integral_v<Own> && std::is_integral_v<Theirs>) {
    return sizeof(Own) == sizeof(Theirs) &&
           std::is_signed_v<Own> == std::is_signed_v<Theirs>;
  } else {
    return false;
  }
}

template <typename Own, typename Theirs> struct Signatures {
  static constexpr bool areSame = false;
};
template <typename R, typename... P, typename S, typename... Q>
struct Signatures<R(P...), S(Q...)> {
  static constexpr bool areSame = [] {
    if constexpr (sizeof...(P) == sizeof...(Q))
      return isSame<R, S>() && (isSame<P, Q>() && ...);
    return false;
  }();
};

// What must not pass.
static_assert(!Signatures<int(int), int(long)>::areSame);
static_assert(!Signatures<int(int), int(int, int)>::areSame);
static_assert(!Signatures<int(void *), int(const void *)>::areSame);
static_assert(!Signatures<int(unsigned), int(int)>::areSame);
static_assert(!Signatures<int(float *), int(double *)>::areSame);

#define TANDEM_COMPARE(symbol, own)                                            \
  static_assert(Signatures<std::remove_pointer_t<decltype(own)>,               \
                           decltype(::symbol)>::areSame,                       \
                #symbol " has other parameters in NVIDIA's header");
#define TANDEM_COMPARE_DRIVER(symbol, name, parameters)                        \
  TANDEM_COMPARE(symbol, tandem::rt::cuda::Driver::name)
#define TANDEM_COMPARE_LT(symbol, name, parameters)                            \
  TANDEM_COMPARE(symbol, tandem::rt::cuda::CublasLt::name)
#define TANDEM_COMPARE_NCCL(result, symbol, name, parameters)                  \
  TANDEM_COMPARE(symbol, tandem::rt::nccl::Api::name)
TANDEM_CUDA_DRIVER(TANDEM_COMPARE_DRIVER)
TANDEM_CUBLASLT(TANDEM_COMPARE_LT)
TANDEM_NCCL(TANDEM_COMPARE_NCCL)

#define TANDEM_VALUE(own, theirs)                                              \
  static_assert((long long)(own) == (long long)(theirs),                       \
                #own " is not " #theirs);
namespace cuda = tandem::rt::cuda;
TANDEM_VALUE(cuda::kSuccess, CUDA_SUCCESS)
TANDEM_VALUE(cuda::kInvalidValue, CUDA_ERROR_INVALID_VALUE)
TANDEM_VALUE(cuda::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
TANDEM_VALUE(cuda::kNoDevice, CUDA_ERROR_NO_DEVICE)
TANDEM_VALUE(cuda::kInvalidImage, CUDA_ERROR_INVALID_IMAGE)
TANDEM_VALUE(cuda::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT)
TANDEM_VALUE(cuda::kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)
TANDEM_VALUE(cuda::kInvalidPtx, CUDA_ERROR_INVALID_PTX)
TANDEM_VALUE(cuda::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE)
TANDEM_VALUE(cuda::kNotFound, CUDA_ERROR_NOT_FOUND)
TANDEM_VALUE(cuda::kNotReady, CUDA_ERROR_NOT_READY)
TANDEM_VALUE(cuda::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS)
TANDEM_VALUE(cuda::kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS)
TANDEM_VALUE(cuda::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED)
TANDEM_VALUE(cuda::kCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
TANDEM_VALUE(cuda::kCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
TANDEM_VALUE(cuda::kCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
TANDEM_VALUE(cuda::kCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
TANDEM_VALUE(cuda::kCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
TANDEM_VALUE(cuda::kUnknown, CUDA_ERROR_UNKNOWN)
TANDEM_VALUE(cuda::kMaxSharedPerBlock,
             CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)
TANDEM_VALUE(cuda::kMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
TANDEM_VALUE(cuda::kMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
TANDEM_VALUE(cuda::kMaxSharedOptIn,
             CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
TANDEM_VALUE(cuda::kMaxDynamicShared,
             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
TANDEM_VALUE(cuda::kNonBlocking, CU_STREAM_NON_BLOCKING)
TANDEM_VALUE(cuda::kDisableTiming, CU_EVENT_DISABLE_TIMING)
TANDEM_VALUE(cuda::kUseNodePriority,
             CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
TANDEM_VALUE(cuda::kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
TANDEM_VALUE(cuda::kCublasSuccess, CUBLAS_STATUS_SUCCESS)
TANDEM_VALUE(cuda::kCublasInvalidValue, CUBLAS_STATUS_INVALID_VALUE)
TANDEM_VALUE(cuda::kCublasExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED)
TANDEM_VALUE(cuda::kCublasNotSupported, CUBLAS_STATUS_NOT_SUPPORTED)
TANDEM_VALUE(cuda::kReal32, CUDA_R_32F)
TANDEM_VALUE(cuda::kReal64, CUDA_R_64F)
TANDEM_VALUE(cuda::kRealBf16, CUDA_R_16BF)
TANDEM_VALUE(cuda::kCompute32, CUBLAS_COMPUTE_32F)
TANDEM_VALUE(cuda::kCompute64, CUBLAS_COMPUTE_64F)
TANDEM_VALUE(cuda::kComputeTf32, CUBLAS_COMPUTE_32F_FAST_TF32)
TANDEM_VALUE(cuda::kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE)
TANDEM_VALUE(cuda::kBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER)
TANDEM_VALUE(cuda::kAuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
TANDEM_VALUE(cuda::kAuxLeading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
TANDEM_VALUE(cuda::kEpilogueNone, CUBLASLT_EPILOGUE_DEFAULT)
TANDEM_VALUE(cuda::kEpilogueRelu, CUBLASLT_EPILOGUE_RELU)
TANDEM_VALUE(cuda::kEpilogueBias, CUBLASLT_EPILOGUE_BIAS)
TANDEM_VALUE(cuda::kEpilogueGelu, CUBLASLT_EPILOGUE_GELU)
TANDEM_VALUE(cuda::kEpilogueGeluAux, CUBLASLT_EPILOGUE_GELU_AUX)
TANDEM_VALUE(cuda::kEpilogueGeluAux | cuda::kEpilogueBias,
             CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
TANDEM_VALUE(cuda::kEpilogueGeluGradient, CUBLASLT_EPILOGUE_DGELU)
TANDEM_VALUE(cuda::kEpilogueSumsA, CUBLASLT_EPILOGUE_BGRADA)
TANDEM_VALUE(cuda::kEpilogueSumsB, CUBLASLT_EPILOGUE_BGRADB)
TANDEM_VALUE(cuda::kTransposeA, CUBLASLT_MATMUL_DESC_TRANSA)
TANDEM_VALUE(cuda::kTransposeB, CUBLASLT_MATMUL_DESC_TRANSB)
TANDEM_VALUE(cuda::kTransposed, CUBLAS_OP_T)
TANDEM_VALUE(cuda::kBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
TANDEM_VALUE(cuda::kBatchOffset, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
TANDEM_VALUE(cuda::kMaxWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
TANDEM_VALUE(cuda::kLeastAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
TANDEM_VALUE(cuda::kLeastAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
TANDEM_VALUE(cuda::kLeastAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
TANDEM_VALUE(cuda::kLeastAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
TANDEM_VALUE(cuda::kMajorVersion, MAJOR_VERSION)
TANDEM_VALUE(cuda::kMinorVersion, MINOR_VERSION)
TANDEM_VALUE(cuda::kPatchLevel, PATCH_LEVEL)

TANDEM_VALUE(cuda::kMemoryTypeOf, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
TANDEM_VALUE(cuda::kDeviceOf, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
TANDEM_VALUE(cuda::kDeviceMemory, CU_MEMORYTYPE_DEVICE)
static_assert(sizeof(cuda::CudaCopy2D) == sizeof(CUDA_MEMCPY2D));
#define TANDEM_SIDE(side, own, theirs)                                         \
  TANDEM_VALUE(offsetof(cuda::CudaCopy2D, side.own),                           \
               offsetof(CUDA_MEMCPY2D, theirs))
TANDEM_SIDE(source, x, srcXInBytes)
TANDEM_SIDE(source, y, srcY)
TANDEM_SIDE(source, memoryType, srcMemoryType)
TANDEM_SIDE(source, host, srcHost)
TANDEM_SIDE(source, device, srcDevice)
TANDEM_SIDE(source, array, srcArray)
TANDEM_SIDE(source, pitch, srcPitch)
TANDEM_SIDE(destination, x, dstXInBytes)
TANDEM_SIDE(destination, device, dstDevice)
TANDEM_SIDE(destination, pitch, dstPitch)
TANDEM_VALUE(offsetof(cuda::CudaCopy2D, width),
             offsetof(CUDA_MEMCPY2D, WidthInBytes))
TANDEM_VALUE(offsetof(cuda::CudaCopy2D, height),
             offsetof(CUDA_MEMCPY2D, Height))

/// Macros, which are addresses.
bool launchParametersAreSame() {
  return cuda::kBufferPointer == CU_LAUNCH_PARAM_BUFFER_POINTER &&
         cuda::kBufferSize == CU_LAUNCH_PARAM_BUFFER_SIZE &&
         cuda::kEnd == CU_LAUNCH_PARAM_END;
}

static_assert(sizeof(cuda::MatmulAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(cuda::MatmulHeuristic) ==
              sizeof(cublasLtMatmulHeuristicResult_t));
TANDEM_VALUE(offsetof(cuda::MatmulHeuristic, workspaceBytes),
             offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize))
TANDEM_VALUE(offsetof(cuda::MatmulHeuristic, state),
             offsetof(cublasLtMatmulHeuristicResult_t, state))

namespace nccl = tandem::rt::nccl;
TANDEM_VALUE(nccl::kSuccess, ncclSuccess)
TANDEM_VALUE(nccl::kUnhandledCudaError, ncclUnhandledCudaError)
TANDEM_VALUE(nccl::kSystemError, ncclSystemError)
TANDEM_VALUE(nccl::kInternalError, ncclInternalError)
TANDEM_VALUE(nccl::kInvalidArgument, ncclInvalidArgument)
TANDEM_VALUE(nccl::kInvalidUsage, ncclInvalidUsage)
TANDEM_VALUE(nccl::kRemoteError, ncclRemoteError)
TANDEM_VALUE(nccl::kInProgress, ncclInProgress)
TANDEM_VALUE(nccl::kUint8, ncclUint8)
TANDEM_VALUE(nccl::kUndefined, NCCL_CONFIG_UNDEF_INT)
TANDEM_VALUE(sizeof(nccl::UniqueId), NCCL_UNIQUE_ID_BYTES)
static_assert(nccl::kOldestVersion == NCCL_VERSION(2, 18, 0));
static_assert(nccl::kOldestVersion <= NCCL_VERSION_CODE);
#define TANDEM_FIELD(own, theirs)                                              \
  TANDEM_VALUE(offsetof(nccl::Config, own), offsetof(ncclConfig_t, theirs))
TANDEM_FIELD(size, size)
TANDEM_FIELD(magic, magic)
TANDEM_FIELD(version, version)
TANDEM_FIELD(blocking, blocking)
TANDEM_FIELD(cgaClusterSize, cgaClusterSize)
TANDEM_FIELD(minCtas, minCTAs)
TANDEM_FIELD(maxCtas, maxCTAs)
TANDEM_FIELD(netName, netName)
TANDEM_FIELD(splitShare, splitShare)
} // namespace
