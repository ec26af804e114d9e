//===- Shapes.td - constants, choices, views, slices ---------- -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

def NN_ConstantOp
    : NN_BuilderRuleOp<"constant", "Constant", "",
                       [SPMD_Source,
                        DeclareOpInterfaceMethods<LocalizeOpInterface>]> {
  let flops = 0;
  let summary = "a constant tensor";
  let arguments = (ins ElementsAttr:$value);
  let assemblyFormat = "$value attr-dict `->` type($result)";
}

def NN_IotaOp
    : NN_TextRuleOp<"iota", "-> (n)", "",
                    [SPMD_Source,
                        DeclareOpInterfaceMethods<LocalizeOpInterface>]> {
  let flops = 0;
  let summary = "0, 1, 2, ... (i64); on a shard, that part of it";
  let arguments = (ins);
  let results = (outs 1DTensorOf<[I64]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

def NN_EitherOp : NN_BuilderRuleOp<"either", "Either"> {
  let flops = 0;
  let summary = "one of several tensors that hold the same values";
  let description = [{
    ```mlir
    %again = nn.gelu none %x {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %read = nn.either %saved, %again {nn.source = 1 : i64, nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    Stands in front of a reader in the backward pass. Operand 0 is what the
    forward pass saved; the others are made again. All have one type and equal
    values to the bit, so the result is an alias of any. The interpreter
    computes all and fails where they differ.

    It lives from the import stage to the first pass of shard. The plan notes in
    `nn.source` which operand the reader takes.
  }];
  let arguments = (ins Variadic<NN_Tensor>:$sources);
}

//===----------------------------------------------------------------------===//
// Views. The shape is that of the result type.
//===----------------------------------------------------------------------===//

def NN_ReshapeOp : NN_BuilderRuleOp<"reshape", "Reshape", "0",
    [NN_View, NN_Rearrangement, NN_MadeAgain,
     DeclareOpInterfaceMethods<NN_StridedOpInterface>]> {
  let flops = 0;
  let summary = "the same elements in row-major order, in another shape";
  let arguments = (ins NN_Tensor:$input);
}

def NN_PermuteOp : NN_BuilderRuleOp<"permute", "Permute", "0",
    [NN_View, NN_Rearrangement, NN_MadeAgain,
     DeclareOpInterfaceMethods<NN_StridedOpInterface>]> {
  let flops = 0;
  let loops = "Permute";
  let summary = "result dimension i is input dimension permutation[i]";
  let arguments = (ins NN_Tensor:$input,
                       DenseI64ArrayAttr:$permutation);
}

def NN_ExpandOp : NN_BuilderRuleOp<"expand", "Elementwise", "0",
    [NN_View, NN_MadeAgain, NN_CostsALoad,
     DeclareOpInterfaceMethods<NN_StridedOpInterface>]> {
  let flops = 0;
  let summary = "repeats dimensions of size 1 and adds leading ones";
  let arguments = (ins NN_Tensor:$input);
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

def NN_SliceOp : NN_BuilderRuleOp<"slice", "AlongDim", "0",
    [NN_View, DeclareOpInterfaceMethods<NN_PieceOpInterface>,
     DeclareOpInterfaceMethods<NN_StridedOpInterface>]> {
  let flops = 0;
  let loops = "Piece";
  let summary = "elements start, start + step, ... below stop of `dim`";
  let arguments = (ins NN_Tensor:$input, I64Attr:$dim, I64Attr:$start,
                       I64Attr:$stop, DefaultValuedAttr<I64Attr, "1">:$step);
}

def NN_PadOp : NN_BuilderRuleOp<"pad", "Pad", "0", [NN_Sums]> {
  let flops = 0;
  let loops = "Piece";
  let summary = "adds `low` zeros before and `high` after along `dim`";
  let description = [{
    With `step` > 1, step - 1 zeros also stand between the elements: the
    gradient of `slice`.
  }];
  let arguments = (ins NN_Tensor:$input, I64Attr:$dim, I64Attr:$low,
                       I64Attr:$high, DefaultValuedAttr<I64Attr, "1">:$step);
}

def NN_CatOp : NN_BuilderRuleOp<"cat", "Cat", "", [NN_Sums]> {
  let flops = 0;
  let loops = "Piece";
  let summary = "joins tensors along `dim`";
  let arguments = (ins Variadic<NN_Tensor>:$inputs, I64Attr:$dim);
}
