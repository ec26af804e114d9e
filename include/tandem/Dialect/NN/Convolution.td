//===- Convolution.td - convolution and its gradients --------- -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

/// The three are derivatives of one form that is linear in input, weight and
/// output (`Convolution.h`), so derivatives of each are the other two. The first
/// two operands and the result are these tensors in another order.
class NN_ConvLikeOp<string mnemonic, dag own, list<string> methods = []>
    : NN_BuilderRuleOp<mnemonic, "Convolution", "0 | 1",
                       [DeclareOpInterfaceMethods<NN_LibraryOpInterface,
                                                  methods>]> {
  let arguments = !con(own, (ins DenseI64ArrayAttr:$stride,
                                 DenseI64ArrayAttr:$padding,
                                 DenseI64ArrayAttr:$dilation));
}

def NN_ConvOp : NN_ConvLikeOp<"conv", (ins NN_Tensor:$input,
                                           NN_Tensor:$weight)> {
  let summary = "convolution of one, two or three spatial dimensions";
  let description = [{
    Input (n, g i, x...), weight (g o, i, k...), result (n, g o, y...), for g
    groups; g follows from the shapes. With stride s, dilation d and padding p of
    a spatial dimension, position y of the result is the sum over i and k of the
    weight times the input at s y + d k - p, which is zero outside. How far it
    reads behind the end of the input follows from the shapes, too, and may be
    less than to its end, by less than a stride. A bias is an addition of its own.
  }];
}

def NN_ConvInputGradOp : NN_ConvLikeOp<"conv_input_grad", (ins
    NN_Tensor:$grad, NN_Tensor:$weight)> {
  let summary = "the gradient of a convolution's input; a transposed convolution";
  let description = [{
    `grad` is that of the result of `nn.conv`, whose input has the shape of the
    result. A transposed convolution of PyTorch's is this operator on its input.
  }];
}

def NN_ConvWeightGradOp : NN_ConvLikeOp<"conv_weight_grad", (ins
    NN_Tensor:$input, NN_Tensor:$grad), ["canWiden"]> {
  let summary = "the gradient of a convolution's weight";
  let description = [{
    Sums over the batch; the weight of `nn.conv` has the shape of the result. Of
    bf16 it may be f32, the sum before it is rounded.
  }];
}
