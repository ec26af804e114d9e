//===- Products.td - matrix products and indexing ------------- -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

def NN_MatmulOp
    : NN_TextRuleOp<"matmul", "(... m k), (... k n) -> (... m n)", "0 | 1",
                    [DeclareOpInterfaceMethods<NN_LibraryOpInterface,
                                               ["canWiden"]>]> {
  let summary = "matrix product, for any number of equal leading dimensions";
  let description = [{
    Products of bf16 are accumulated in f32. `import` keeps leading dimensions
    apart where it can, since a dimension merged with another one cannot be
    split.
  }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
}

def NN_EmbeddingOp
    : NN_BuilderRuleOp<"embedding", "Embedding", "0",
                       [NN_ReadsIndices, NN_Lookup,
                        DeclareOpInterfaceMethods<LocalizeOpInterface>]> {
  let flops = 0;
  let loops = "Embedding";
  let summary = "rows of `weight` (v, d...) by `indices`: (i..., d...)";
  let description = [{
    Where the rows are split, a shard gives zero for indices that it does not
    hold, and the result is `reduce`. An index outside [0, v) is an error at run
    time.
  }];
  let arguments = (ins NN_Tensor:$weight, TensorOf<[I64]>:$indices);
}

def NN_EmbeddingBackwardOp
    : NN_BuilderRuleOp<"embedding_backward", "EmbeddingBackward", "0",
                       [NN_Sums, NN_ReadsIndices, NN_OwnLoops,
                        DeclareOpInterfaceMethods<LocalizeOpInterface>]> {
  let summary = "adds each row of `grad` (i..., d...) to the row of its index";
  let description = "The result has shape (v, d...).";
  let arguments = (ins NN_Tensor:$grad, TensorOf<[I64]>:$indices);
}

def NN_GatherOp
    : NN_BuilderRuleOp<"gather", "Gather", "0", [NN_ReadsIndices]> {
  let flops = 0;
  let loops = "Gather";
  let summary = "result[.., i, ..] = input[.., index[.., i, ..], ..] on `dim`";
  let description = [{
    As `torch.gather`, but all dimensions other than `dim` are equal in input
    and index.
  }];
  let arguments = (ins NN_Tensor:$input, TensorOf<[I64]>:$index,
                       I64Attr:$dim);
}

def NN_ScatterAddOp
    : NN_BuilderRuleOp<"scatter_add", "ScatterAdd", "0",
                       [NN_Sums, NN_ReadsIndices, NN_OwnLoops]> {
  let summary = "the gradient of `gather`: adds `src` into zeros at `index`";
  let description = [{
    `src` and `index` have equal shapes; the result has their shape except on
    `dim`.
  }];
  let arguments = (ins NN_Tensor:$src, TensorOf<[I64]>:$index,
                       I64Attr:$dim);
}
