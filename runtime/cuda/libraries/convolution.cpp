//===- convolution.cpp - convolutions, by plain kernels -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "cuda/driver/work.h"
#include "cuda/kernels/words.h"

namespace tandem::rt::cuda {

Expected<std::unique_ptr<Work>> makeConvolution(const WorkContext &context,
                                                const Convolution &op,
                                                int64_t count) {
  namespace at = convolution;
  auto words = [&](int64_t iteration) {
    Words made(at::End, 0);
    auto put = [&](int place, int64_t value) { made[size_t(place)] = value; };
    // Fewer dimensions are the last ones of three.
    size_t dims = op.stride.size(), skip = 3 - dims;
    put(at::Kind, int64_t(op.kind));
    put(at::Groups, op.groups());
    for (int dim = 0; dim < 3; ++dim) {
      bool isThere = size_t(dim) >= skip;
      size_t from = size_t(dim) - (isThere ? skip : 0);
      put(at::Stride + dim, isThere ? op.stride[from] : 1);
      put(at::Padding + dim, isThere ? op.padding[from] : 0);
      put(at::Dilation + dim, isThere ? op.dilation[from] : 1);
    }
    for (int i = 0; i < 3; ++i) {
      const ConvolutionTensor &tensor = op.tensors[size_t(i)];
      int first = at::Tensors + i * at::TensorWords;
      put(first, int64_t(context.memory.address(tensor.buffer).at(iteration)));
      for (int dim = 0; dim < 5; ++dim) {
        bool isThere = dim < 2 || size_t(dim - 2) >= skip;
        size_t from = dim < 2 ? size_t(dim) : size_t(dim) - skip;
        put(first + 1 + dim, isThere ? tensor.extents[from] : 1);
        put(first + 6 + dim, isThere ? tensor.strides[from] : 0);
      }
    }
    return made;
  };
  ++context.plain.convolutions;
  return makePlainWork(context.gpu,
                       concat("tandem_convolution_", elementName(op.type), "_",
                              elementName(op.madeType)),
                       numElements(op.tensors[op.roles()[2]].extents), count,
                       words);
}

} // namespace tandem::rt::cuda
