//===- api.h - functions of NVIDIA's libraries ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declared here, so that neither headers nor libraries of CUDA are needed to
// build: the driver API of CUDA 13 and cuBLASLt 13. A line per function: its
// name in the library, the name that it has here, and its parameters. The
// emulator defines the same lists.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_DRIVER_API_H
#define TANDEM_RT_CUDA_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

namespace tandem::rt::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;

inline constexpr CUresult kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2,
                          kNoDevice = 100, kInvalidImage = 200,
                          kInvalidContext = 201, kNoBinaryForGpu = 209,
                          kInvalidPtx = 218, kInvalidHandle = 400,
                          kNotFound = 500, kNotReady = 600,
                          kIllegalAddress = 700, kMisalignedAddress = 716,
                          kLaunchFailed = 719, kCaptureUnsupported = 900,
                          kCaptureInvalidated = 901, kCaptureUnmatched = 903,
                          kCaptureUnjoined = 904, kCaptureIsolation = 905,
                          kUnknown = 999;

struct CUuuid {
  char bytes[16];
  bool operator==(const CUuuid &) const = default;
};

/// Of CUdevice_attribute.
inline constexpr int kMaxSharedPerBlock = 8, kMajor = 75, kMinor = 76,
                     kMaxSharedOptIn = 97;
/// Of CUfunction_attribute.
inline constexpr int kMaxDynamicShared = 8;
/// Of CUstream_flags and CUevent_flags.
inline constexpr unsigned kNonBlocking = 1, kDisableTiming = 2;
/// Of CUgraphInstantiate_flags: kernels keep the priorities of the streams that
/// they were captured in.
inline constexpr unsigned kUseNodePriority = 8;
/// Of CUstreamCaptureMode: only this thread's calls may break a capture.
inline constexpr int kCaptureThreadLocal = 1;
/// How cuLaunchKernel is told of one buffer that holds all parameters.
inline void *const kBufferPointer = reinterpret_cast<void *>(1);
inline void *const kBufferSize = reinterpret_cast<void *>(2);
inline void *const kEnd = nullptr;

/// The oldest driver, as cuDriverGetVersion counts.
inline constexpr int kOldestDriver = 13000;

/// Of CUpointer_attribute, and of CUmemorytype.
inline constexpr int kMemoryTypeOf = 2, kDeviceOf = 9;
inline constexpr unsigned kDeviceMemory = 2;

/// CUDA_MEMCPY2D: rows of so many bytes, each a pitch behind the last one.
struct CudaCopy2D {
  struct Side {
    size_t x = 0, y = 0; ///< Bytes, and rows, of the first byte.
    unsigned memoryType = kDeviceMemory;
    const void *host = nullptr;
    CUdeviceptr device = 0;
    void *array = nullptr;
    size_t pitch = 0;
  };
  Side source, destination;
  size_t width = 0, height = 0;
};

#define TANDEM_CUDA_DRIVER(F)                                                  \
  F(cuInit, init, (unsigned flags))                                            \
  F(cuDriverGetVersion, driverGetVersion, (int *version))                      \
  F(cuDeviceGetCount, deviceGetCount, (int *count))                            \
  F(cuDeviceGet, deviceGet, (CUdevice * device, int ordinal))                  \
  F(cuDeviceGetName, deviceGetName, (char *name, int length, CUdevice device)) \
  F(cuDeviceGetUuid_v2, deviceGetUuid, (CUuuid * id, CUdevice device))         \
  F(cuDeviceGetAttribute, deviceGetAttribute,                                  \
    (int *value, int attribute, CUdevice device))                              \
  F(cuDevicePrimaryCtxRetain, primaryContextRetain,                            \
    (CUcontext * context, CUdevice device))                                    \
  F(cuDevicePrimaryCtxRelease_v2, primaryContextRelease, (CUdevice device))    \
  F(cuCtxSetCurrent, contextSetCurrent, (CUcontext context))                   \
  F(cuCtxGetCurrent, contextGetCurrent, (CUcontext * context))                 \
  F(cuCtxSynchronize, contextSynchronize, ())                                  \
  F(cuCtxGetStreamPriorityRange, contextGetPriorities,                         \
    (int *least, int *greatest))                                               \
  F(cuGetErrorString, getErrorString, (CUresult error, const char **text))     \
  F(cuMemGetInfo_v2, memGetInfo, (size_t *free, size_t *total))                \
  F(cuMemAlloc_v2, memAlloc, (CUdeviceptr * address, size_t bytes))            \
  F(cuMemFree_v2, memFree, (CUdeviceptr address))                              \
  F(cuMemHostAlloc, memHostAlloc,                                              \
    (void **memory, size_t bytes, unsigned flags))                             \
  F(cuMemFreeHost, memFreeHost, (void *memory))                                \
  F(cuMemcpyHtoD_v2, memcpyHtoD,                                               \
    (CUdeviceptr to, const void *from, size_t bytes))                          \
  F(cuMemcpyDtoH_v2, memcpyDtoH, (void *to, CUdeviceptr from, size_t bytes))   \
  F(cuMemcpyDtoDAsync_v2, memcpyDtoDAsync,                                     \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))         \
  F(cuMemcpyHtoDAsync_v2, memcpyHtoDAsync,                                     \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))         \
  F(cuMemcpyDtoHAsync_v2, memcpyDtoHAsync,                                     \
    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))               \
  F(cuMemcpy2DAsync_v2, memcpy2DAsync,                                         \
    (const CudaCopy2D *copy, CUstream stream))                                 \
  F(cuPointerGetAttribute, pointerGetAttribute,                                \
    (void *value, int attribute, CUdeviceptr address))                         \
  F(cuMemsetD8Async, memsetD8Async,                                            \
    (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))      \
  F(cuMemsetD2D8Async, memsetD2D8Async,                                        \
    (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,          \
     size_t height, CUstream stream))                                          \
  F(cuMemsetD32Async, memsetD32Async,                                          \
    (CUdeviceptr to, unsigned value, size_t count, CUstream stream))           \
  F(cuModuleLoadData, moduleLoadData, (CUmodule * module, const void *image))  \
  F(cuModuleUnload, moduleUnload, (CUmodule module))                           \
  F(cuModuleGetFunction, moduleGetFunction,                                    \
    (CUfunction * function, CUmodule module, const char *name))                \
  F(cuFuncSetAttribute, functionSetAttribute,                                  \
    (CUfunction function, int attribute, int value))                           \
  F(cuLaunchKernel, launchKernel,                                              \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,      \
     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,  \
     CUstream stream, void **parameters, void **extra))                        \
  F(cuStreamCreate, streamCreate, (CUstream * stream, unsigned flags))         \
  F(cuStreamCreateWithPriority, streamCreateWithPriority,                      \
    (CUstream * stream, unsigned flags, int priority))                         \
  F(cuStreamDestroy_v2, streamDestroy, (CUstream stream))                      \
  F(cuStreamQuery, streamQuery, (CUstream stream))                             \
  F(cuStreamSynchronize, streamSynchronize, (CUstream stream))                 \
  F(cuStreamWaitEvent, streamWaitEvent,                                        \
    (CUstream stream, CUevent event, unsigned flags))                          \
  F(cuStreamBeginCapture_v2, streamBeginCapture, (CUstream stream, int mode))  \
  F(cuStreamEndCapture, streamEndCapture, (CUstream stream, CUgraph * graph))  \
  F(cuGraphInstantiateWithFlags, graphInstantiate,                             \
    (CUgraphExec * made, CUgraph graph, unsigned long long flags))             \
  F(cuGraphLaunch, graphLaunch, (CUgraphExec graph, CUstream stream))          \
  F(cuGraphExecDestroy, graphExecDestroy, (CUgraphExec graph))                 \
  F(cuGraphDestroy, graphDestroy, (CUgraph graph))                             \
  F(cuEventCreate, eventCreate, (CUevent * event, unsigned flags))             \
  F(cuEventDestroy_v2, eventDestroy, (CUevent event))                          \
  F(cuEventSynchronize, eventSynchronize, (CUevent event))                     \
  F(cuEventRecord, eventRecord, (CUevent event, CUstream stream))              \
  F(cuEventElapsedTime_v2, eventElapsedTime,                                   \
    (float *milliseconds, CUevent begin, CUevent end))

using CublasStatus = int;
using CublasLtHandle = struct cublasLtContext *;
using MatmulDesc = struct cublasLtMatmulDescOpaque *;
using MatrixLayout = struct cublasLtMatrixLayoutOpaque *;
using MatmulPreference = struct cublasLtMatmulPreferenceOpaque *;

/// cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t.
struct MatmulAlgorithm {
  uint64_t data[8];
};
struct MatmulHeuristic {
  MatmulAlgorithm algorithm;
  size_t workspaceBytes;
  CublasStatus state;
  float waves;
  int reserved[4];
};

inline constexpr CublasStatus kCublasSuccess = 0, kCublasInvalidValue = 7,
                              kCublasExecutionFailed = 13,
                              kCublasNotSupported = 15;
/// Of cudaDataType.
inline constexpr int kReal32 = 0, kReal64 = 1, kRealBf16 = 14;
/// Of cublasComputeType_t.
inline constexpr int kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77;
/// Of cublasLtMatmulDescAttributes_t, with CUBLAS_OP_T.
inline constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7,
                     kBiasPointer = 8, kAuxPointer = 11, kAuxLeading = 12;
/// Of cublasLtEpilogue_t, which is a sum of some of them; GELU is that of tanh.
/// The gradient of GELU and what keeps the pre-activation have an auxiliary
/// matrix; the sums over k of a and b are gradients of biases.
inline constexpr uint32_t kEpilogueNone = 1, kEpilogueRelu = 2,
                          kEpilogueBias = 4, kEpilogueGelu = 32,
                          kEpilogueGeluAux = 32 | 128,
                          kEpilogueGeluGradient = 64 | 128,
                          kEpilogueSumsA = 256, kEpilogueSumsB = 512;
inline constexpr int32_t kTransposed = 1;
/// Of cublasLtMatrixLayoutAttribute_t.
inline constexpr int kBatchCount = 5, kBatchOffset = 6;
/// Of cublasLtMatmulPreferenceAttributes_t; without the others the library
/// takes every matrix to begin at a multiple of 256 bytes.
inline constexpr int kMaxWorkspace = 1, kLeastAlignmentA = 5,
                     kLeastAlignmentB = 6, kLeastAlignmentC = 7,
                     kLeastAlignmentD = 8;
/// Of libraryPropertyType.
inline constexpr int kMajorVersion = 0, kMinorVersion = 1, kPatchLevel = 2;

#define TANDEM_CUBLASLT(F)                                                     \
  F(cublasLtCreate, create, (CublasLtHandle * handle))                         \
  F(cublasLtDestroy, destroy, (CublasLtHandle handle))                         \
  F(cublasLtGetProperty, getProperty, (int property, int *value))              \
  F(cublasLtMatmulDescCreate, matmulDescCreate,                                \
    (MatmulDesc * desc, int computeType, int scaleType))                       \
  F(cublasLtMatmulDescDestroy, matmulDescDestroy, (MatmulDesc desc))           \
  F(cublasLtMatmulDescSetAttribute, matmulDescSet,                             \
    (MatmulDesc desc, int attribute, const void *value, size_t bytes))         \
  F(cublasLtMatrixLayoutCreate, layoutCreate,                                  \
    (MatrixLayout * layout, int type, uint64_t rows, uint64_t columns,         \
     int64_t leading))                                                         \
  F(cublasLtMatrixLayoutDestroy, layoutDestroy, (MatrixLayout layout))         \
  F(cublasLtMatrixLayoutSetAttribute, layoutSet,                               \
    (MatrixLayout layout, int attribute, const void *value, size_t bytes))     \
  F(cublasLtMatmulPreferenceCreate, preferenceCreate,                          \
    (MatmulPreference * preference))                                           \
  F(cublasLtMatmulPreferenceDestroy, preferenceDestroy,                        \
    (MatmulPreference preference))                                             \
  F(cublasLtMatmulPreferenceSetAttribute, preferenceSet,                       \
    (MatmulPreference preference, int attribute, const void *value,            \
     size_t bytes))                                                            \
  F(cublasLtMatmulAlgoGetHeuristic, getHeuristic,                              \
    (CublasLtHandle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b,   \
     MatrixLayout c, MatrixLayout d, MatmulPreference preference, int wanted,  \
     MatmulHeuristic *results, int *found))                                    \
  F(cublasLtMatmulAlgoCheck, algorithmCheck,                                   \
    (CublasLtHandle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b,   \
     MatrixLayout c, MatrixLayout d, const MatmulAlgorithm *algorithm,         \
     MatmulHeuristic *result))                                                 \
  F(cublasLtMatmul, matmul,                                                    \
    (CublasLtHandle handle, MatmulDesc desc, const void *alpha, const void *a, \
     MatrixLayout layoutA, const void *b, MatrixLayout layoutB,                \
     const void *beta, const void *c, MatrixLayout layoutC, void *d,           \
     MatrixLayout layoutD, const MatmulAlgorithm *algorithm, void *workspace,  \
     size_t workspaceBytes, CUstream stream))

#define TANDEM_CUDA_MEMBER(symbol, name, parameters) CUresult(*name) parameters;
/// The functions of a library, found when it was loaded.
struct Driver {
  TANDEM_CUDA_DRIVER(TANDEM_CUDA_MEMBER)
};
struct CublasLt {
  TANDEM_CUBLASLT(TANDEM_CUDA_MEMBER)
};
#undef TANDEM_CUDA_MEMBER

/// The emulated driver alone has a symbol of this name.
#define TANDEM_CUDA_EMULATED "tandemEmulatedGpu"

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_DRIVER_API_H
