//===- Pooling.td - max pooling ----------------------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

def NN_MaxPoolOp : NN_BuilderRuleOp<"max_pool", "Pooling", "", [NN_OwnLoops]> {
  let flops = 4;
  let summary = "the largest element of each window, and where it is";
  let description = [{
    Windows over the last dimensions, as many as `kernel` has, as those of
    `nn.conv`: with stride s, dilation d and padding p, window y has the elements
    s y + d k - p that are in the input, of which there is one or more. The index is
    that in these dimensions, row-major. Of equal elements the first one counts; a
    NaN is larger than every number and than a NaN before it. The gradient is
    `nn.scatter_add` at the indices.
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$kernel,
                       DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$padding,
                       DenseI64ArrayAttr:$dilation);
  let results = (outs NN_Tensor:$values, TensorOf<[I64]>:$indices);
}
