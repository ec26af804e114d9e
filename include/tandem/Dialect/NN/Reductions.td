//===- Reductions.td - operators along dimensions ------------- -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

class NN_ReductionOp<string mnemonic, string builder, string linear = "",
                     list<Trait> traits = []>
    : NN_BuilderRuleOp<mnemonic, builder, linear, traits> {
  let loops = "Reduction";
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$dims,
                       DefaultValuedAttr<BoolAttr, "false">:$keepdim);
}

def NN_SumOp : NN_ReductionOp<"sum", "Sum", "0", [NN_Sums]> {
  let summary = "sum over `dims` (sorted, not negative)";
}

def NN_MaxOp : NN_ReductionOp<"max", "WholeReduction"> {
  let summary = "maximum over `dims`; NaN wins; on i1 it is `any`";
}

def NN_MinOp : NN_ReductionOp<"min", "WholeReduction"> {
  let summary = "minimum over `dims`; NaN wins; on i1 it is `all`";
}

def NN_ProdOp : NN_ReductionOp<"prod", "WholeReduction"> {
  let summary = "product over `dims`";
}

def NN_ArgmaxOp : NN_BuilderRuleOp<"argmax", "Argmax"> {
  let loops = "Reduction";
  let summary = "index (i64) of the largest element of `dim`; the lowest wins";
  let arguments = (ins NN_Tensor:$input, I64Attr:$dim,
                       DefaultValuedAttr<BoolAttr, "false">:$keepdim);
}

//===----------------------------------------------------------------------===//
// One dimension stays whole
//===----------------------------------------------------------------------===//

class NN_AlongDimOp<string mnemonic, string linear = "",
                    list<Trait> traits = []>
    : NN_BuilderRuleOp<mnemonic, "AlongDim", linear, traits> {
  let loops = "AlongDim";
  let arguments = (ins NN_Tensor:$input, I64Attr:$dim);
}

def NN_SoftmaxOp : NN_AlongDimOp<"softmax", "", [NN_MadeAgain]> {
  let flops = 8;
  let summary = "e^x / sum(e^x) along `dim`";
  let description = [{
    A slice that is all -inf gives NaN (`aten._softmax`), with `safe` zeros
    (`aten._safe_softmax`, which scaled dot-product attention uses).
  }];
  let arguments = (ins NN_Tensor:$input, I64Attr:$dim,
                       DefaultValuedAttr<BoolAttr, "false">:$safe);
}

def NN_LogSoftmaxOp : NN_AlongDimOp<"log_softmax"> {
  let flops = 8;
  let summary = "x - logsumexp(x) along `dim`";
}

class NN_AlongDimBackwardOp<string mnemonic>
    : NN_BuilderRuleOp<mnemonic, "AlongDim", "0"> {
  let loops = "AlongDim";
  let arguments = (ins NN_Tensor:$grad, NN_Tensor:$output,
                       I64Attr:$dim);
}

def NN_SoftmaxBackwardOp : NN_AlongDimBackwardOp<"softmax_backward"> {
  let flops = 4;
  let summary = "y * (dy - sum(dy * y)) along `dim`, y being the output";
}

def NN_LogSoftmaxBackwardOp : NN_AlongDimBackwardOp<"log_softmax_backward"> {
  let flops = 4;
  let summary = "dy - e^y * sum(dy) along `dim`, y being the output";
}

def NN_CumsumOp : NN_AlongDimOp<"cumsum", "0", [NN_OwnLoops]> {
  let loops = "No";
  let summary = "running sum along `dim`";
}

def NN_FlipOp
    : NN_BuilderRuleOp<"flip", "Flip", "0",
                       [NN_Sums,
                        DeclareOpInterfaceMethods<NN_PieceOpInterface>]> {
  let flops = 0;
  let loops = "Piece";
  let summary = "reverses `dims`";
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$dims);
}

def NN_RollOp
    : NN_BuilderRuleOp<"roll", "Flip", "0",
                       [NN_Sums,
                        DeclareOpInterfaceMethods<NN_PieceOpInterface>]> {
  let flops = 0;
  let loops = "Piece";
  let summary = "moves elements by `shifts` along `dims`, round the end";
  let description = [{
    `dims` are sorted, `shifts` in [0, size of the dimension).
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$dims,
                       DenseI64ArrayAttr:$shifts);
}

def NN_TopkOp : NN_BuilderRuleOp<"topk", "AlongDim", "", [NN_OwnLoops]> {
  let summary = "the `k` largest elements of `dim`, in descending order";
  let description = [{
    `largest = false` gives the smallest, ascending. Equal elements come with
    the lowest index first. With k = the size of `dim` it is a stable sort.
  }];
  let arguments = (ins NN_Tensor:$input, I64Attr:$k, I64Attr:$dim,
                       DefaultValuedAttr<BoolAttr, "true">:$largest);
  let results = (outs NN_Tensor:$values, TensorOf<[I64]>:$indices);
}

//===----------------------------------------------------------------------===//
// Layer normalisation
//===----------------------------------------------------------------------===//

def NN_LayerNormOp : NN_BuilderRuleOp<"layer_norm", "LayerNorm"> {
  let loops = "Normalized";
  let flops = 8;
  let summary = "normalises the last `normalized_rank` dimensions";
  let description = [{
    Results: (x - mean) * rstd * weight + bias, mean, and rstd = 1 / sqrt(var +
    eps), where mean and rstd keep the normalised dimensions with size 1. `affine`
    holds weight and bias, or weight, or nothing; they have the shape of the
    normalised dimensions. Beside an input of bf16 or f16 they, mean and rstd may
    be f32.
  }];
  let arguments = (ins NN_Tensor:$input,
                       Variadic<NN_Tensor>:$affine,
                       I64Attr:$normalized_rank, F64Attr:$eps);
  let results = (outs NN_Tensor:$result, NN_Tensor:$mean,
                      NN_Tensor:$rstd);
}

def NN_LayerNormBackwardOp
    : NN_BuilderRuleOp<"layer_norm_backward", "LayerNorm", "0"> {
  let loops = "Normalized";
  let flops = 8;
  let summary = "gradients of layer_norm's input, weight and bias";
  let description = [{
    `weight` may be absent; then there is one result. With it, results are the
    gradients of the input, of the weight and of the bias.
  }];
  let arguments = (ins NN_Tensor:$grad, NN_Tensor:$input,
                       NN_Tensor:$mean, NN_Tensor:$rstd,
                       Variadic<NN_Tensor>:$weight,
                       I64Attr:$normalized_rank);
  let results = (outs Variadic<NN_Tensor>:$gradients);
}
