//===- Commands.td - commands ------------------------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_COMMANDS_TD
#define TANDEM_DIALECT_SCHED_COMMANDS_TD

include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "tandem/Dialect/Sched/SchedInterfaces.td"

//===----------------------------------------------------------------------===//
// Products with strides
//===----------------------------------------------------------------------===//

defvar strides_ins = (ins
  DenseI64ArrayAttr:$batch, I64Attr:$m, I64Attr:$n, I64Attr:$k,
  DenseI64ArrayAttr:$strides_a, DenseI64ArrayAttr:$strides_b,
  DenseI64ArrayAttr:$strides_c,
  DefaultValuedAttr<F64Attr, "1.0">:$alpha);

defvar beside_ins = (ins
  DefaultValuedAttr<Sched_EpilogueAttr, "::tandem::sched::Epilogue::None">:$epilogue,
  DefaultValuedAttr<Sched_SummedAttr, "::tandem::sched::Summed::None">:$summed);

def Sched_MatmulOp : Tandem_Op<Sched_Dialect, "matmul", [
    Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<LibraryCallOpInterface, ["getOverwritten"]>]> {
  let summary = "a matrix product that reads and writes by strides";
  let description = [{
    Lives within `lower`, between tensors and buffers. For each point of
    `batch`: c = alpha a b, or c = sum + alpha a b where there is a `sum`, whose
    buffer the result takes; a `bias` of n elements is added to each row. The
    epilogue `gelu` writes the GELU of tanh of that, and that itself as a second
    result, if asked; `gelu_gradient` writes its product with the derivative of
    GELU at `pre_activation`. Both are (m, n), by rows. In place of an epilogue the
    second result may be the sums over k of the operand that `summed` names: the
    gradient of a bias, beside that of a weight. Only devices whose library can have
    these. Element (i, j) of an operand lies at
    offset + the sum over the batch of index * stride + i * s + j * t in the row-major
    elements of the tensor; s and t are the last two strides. So a transposed, permuted,
    sliced or expanded operand is read where it lies, and the result is written in the
    layout that its consumer wants. Strides are in elements, one per
    batch dimension, then (m, k), (k, n) and (m, n). Every element of the
    result is written.
  }];
  let arguments = !con(
    (ins AnyStaticShapeTensor:$lhs, AnyStaticShapeTensor:$rhs,
         Optional<AnyStaticShapeTensor>:$bias, Optional<AnyStaticShapeTensor>:$sum,
         Optional<AnyStaticShapeTensor>:$pre_activation),
    strides_ins, beside_ins,
    (ins DefaultValuedAttr<I64Attr, "0">:$offset_a,
         DefaultValuedAttr<I64Attr, "0">:$offset_b));
  // Beside it the pre-activation that is kept, or the sums.
  let results = (outs AnyStaticShapeTensor:$result,
                      Optional<AnyStaticShapeTensor>:$beside);
  let assemblyFormat = [{
    $lhs `,` $rhs (`plus` $bias^)? (`onto` $sum^)? (`at` $pre_activation^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The pre-activation that is kept, and the sums; or null.
    ::mlir::Value getKept();
    ::mlir::Value getSums();
    /// The same product, which had one result, with a second one of this type.
    MatmulOp keep(::mlir::Type beside);
    std::string getLabel();
  }];
}

//===----------------------------------------------------------------------===//
// Attention with strides
//===----------------------------------------------------------------------===//

// `sizes` are batch, heads, heads of the keys, queries, keys, width and width of
// the values; `strides` those of batch, head and row of each tensor of four
// dimensions, inputs first, whose rows are contiguous; `mask_strides` of batch,
// head, query and key, if there is a mask. The others are those of `nn`.
defvar attention_ins = (ins
  UnitAttr:$backward, DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides,
  OptionalAttr<DenseI64ArrayAttr>:$mask_strides, F64Attr:$scale,
  OptionalAttr<I64Attr>:$before, OptionalAttr<I64Attr>:$after,
  DefaultValuedAttr<F64Attr, "0.0">:$dropout,
  DefaultValuedAttr<I64Attr, "0">:$ordinal);

def Sched_AttentionOp : Op<Sched_Dialect, "attention", [
    Pure, DeclareOpInterfaceMethods<LibraryCallOpInterface, ["getFlops"]>]> {
  let summary = "`nn.attention` or its backward, which reads and writes by strides";
  let description = [{
    Lives within `lower`, between tensors and buffers. Inputs and results come as
    in `nn`; each tensor of four dimensions lies where strides say, from its element
    of `offsets` on (of inputs), in the row-major elements of another one. Every
    element of the results is written.
  }];
  let arguments = !con((ins Variadic<AnyStaticShapeTensor>:$inputs), attention_ins,
    (ins DenseI64ArrayAttr:$offsets, I64Attr:$operations));
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat =
      "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Convolution with strides
//===----------------------------------------------------------------------===//

// `input`, `weight` and `output` are the shapes of these tensors, as of `nn.conv`;
// `strides` those of all their dimensions, in this order.
defvar convolution_ins = (ins
  Sched_ConvolutionKindAttr:$kind, DenseI64ArrayAttr:$input,
  DenseI64ArrayAttr:$weight, DenseI64ArrayAttr:$output,
  DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$padding,
  DenseI64ArrayAttr:$dilation, DenseI64ArrayAttr:$strides);

def Sched_ConvOp : Op<Sched_Dialect, "conv", [
    Pure, DeclareOpInterfaceMethods<LibraryCallOpInterface,
                                    ["getWorkspaceBytes"]>]> {
  let summary = "`nn.conv` or a gradient of it, which reads and writes by strides";
  let description = [{
    Lives within `lower`, between tensors and buffers. Operands and result come as
    in `nn`; each lies where strides say, from its element of `offsets` on (of
    operands), in the row-major elements of another tensor. Every element of the
    result is written.
  }];
  let arguments = !con((ins AnyStaticShapeTensor:$lhs, AnyStaticShapeTensor:$rhs),
                       convolution_ins, (ins DenseI64ArrayAttr:$offsets));
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $kind $lhs `,` $rhs attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// What a loop carries
//===----------------------------------------------------------------------===//

def Sched_ZerosOp : Tandem_Op<Sched_Dialect, "zeros", [Pure]> {
  let summary = "tensors of zeros of one element type, side by side in memory";
  let description = [{
    Lives within `lower`, in a step in front of a loop whose iterations add to
    them.
  }];
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = "attr-dict `:` type($results)";
}

def Sched_KeepOp : Tandem_Op<Sched_Dialect, "keep", [
    Pure, AllTypesMatch<["value", "kept", "result"]>]> {
  let summary = "`value`, in the memory of `kept`";
  let description = [{
    Lives within `lower`: the sum up to this iteration lies where the next one
    finds it.
  }];
  let arguments = (ins AnyStaticShapeTensor:$value, AnyStaticShapeTensor:$kept);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$value `in` $kept attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def Sched_AllocOp : Tandem_Op<Sched_Dialect, "alloc", [Pure]> {
  let summary = "a buffer in the arena";
  let description = [{
    `offset`, in bytes, is set when buffers are placed. Two buffers may have
    bytes in common if every use of one is done before any of the other begins.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs AnyMemRef:$buffer);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($buffer)";
}

def Sched_ResultOp : Tandem_Op<Sched_Dialect, "result", [Pure]> {
  let summary = "the buffer of a result of the step";
  let arguments = (ins I64Attr:$index);
  let results = (outs AnyMemRef:$buffer);
  let assemblyFormat = "$index attr-dict `:` type($buffer)";
}

def Sched_ViewOp : Tandem_Op<Sched_Dialect, "view", [Pure]> {
  let summary = "contiguous elements of a buffer, in another shape";
  let description = [{
    Begins `offset` elements into the source, plus, for each axis, the rank's
    coordinate times the axis' coefficient, plus `per_iteration` for each
    iteration of a loop before this one.
  }];
  let arguments = (ins AnyMemRef:$source, DefaultValuedAttr<I64Attr, "0">:$offset,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$axes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$coefficients,
                       DefaultValuedAttr<I64Attr, "0">:$per_iteration);
  let results = (outs AnyMemRef:$buffer);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($buffer)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::LogicalResult verifyRange(int64_t elements, int64_t sourceElements);
  }];
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// `head` and `types` begin and end the text of the command.
class Sched_Command<string mnemonic, string head, string types, dag operands,
                    list<Trait> traits = []>
    : Tandem_Op<Sched_Dialect, mnemonic, traits # [
        DeclareOpInterfaceMethods<CommandOpInterface,
                                  ["getReads", "getWrites"]>]> {
  // `label` is what a user would call the command; FLOPs and bytes are those of
  // one rank.
  let arguments = !con(operands, (ins Sched_QueueAttr:$queue, Sched_NumberAttr:$stage,
                                      Sched_NumberAttr:$strand, StrAttr:$label,
                                      Sched_CountAttr:$flops,
                                      Sched_CountAttr:$bytes));
  let assemblyFormat = !strconcat(
      head, " `on` custom<Queue>($queue) `stage` $stage `strand` $strand attr-dict `:` ",
      types);
}

def Sched_LaunchOp : Sched_Command<"launch",
    "$kernel `(` $inputs `)` `into` `(` $outputs `)`",
    "functional-type($inputs, $outputs)", (ins
      FlatSymbolRefAttr:$kernel, Variadic<AnyMemRef>:$inputs,
      Variadic<AnyMemRef>:$outputs),
    [AttrSizedOperandSegments,
     DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "calls a kernel: a function of this module on tensors";
}

def Sched_GemmOp : Sched_Command<"gemm",
    "$lhs `,` $rhs (`plus` $bias^)? `into` $destination (`at` $pre_activation^)? "
    "(`sums` $sums^)? (`workspace` $workspace^)?",
    "type($lhs) `,` type($rhs) (`plus` type($bias)^)? `into` "
    "type($destination) (`at` type($pre_activation)^)? (`sums` type($sums)^)? "
    "(`workspace` type($workspace)^)?", !con((ins
      AnyMemRef:$lhs, AnyMemRef:$rhs, Optional<AnyMemRef>:$bias,
      AnyMemRef:$destination, Optional<AnyMemRef>:$pre_activation,
      Optional<AnyMemRef>:$sums, Optional<AnyMemRef>:$workspace,
      UnitAttr:$accumulate), strides_ins, beside_ins), [AttrSizedOperandSegments]> {
  let summary = "`sched.matmul` on buffers, in the library";
  let description = [{
    With `accumulate` it adds to what is in the destination. The pre-activation is
    written by `gelu` and read by `gelu_gradient`. The workspace, if it has one, holds
    nothing before and afterwards.
  }];
  let hasVerifier = 1;
}

def Sched_AttendOp : Sched_Command<"attend",
    "`(` $inputs `)` `into` `(` $outputs `)`",
    "functional-type($inputs, $outputs)", !con((ins
      Variadic<AnyMemRef>:$inputs, Variadic<AnyMemRef>:$outputs), attention_ins),
    [AttrSizedOperandSegments]> {
  let summary = "`sched.attention` on buffers, in the library";
  let hasVerifier = 1;
}

def Sched_ConvolveOp : Sched_Command<"convolve",
    "$kind $lhs `,` $rhs `into` $destination (`workspace` $workspace^)?",
    "type($lhs) `,` type($rhs) `into` type($destination) "
    "(`workspace` type($workspace)^)?", !con((ins
      AnyMemRef:$lhs, AnyMemRef:$rhs, AnyMemRef:$destination,
      Optional<AnyMemRef>:$workspace), convolution_ins)> {
  let summary = "`sched.conv` on buffers, in the library";
  let description = "The workspace holds nothing before and afterwards.";
  let hasVerifier = 1;
}

def Sched_CollectiveOp : Sched_Command<"collective",
    "$kind $source `into` $destination `over` $axes",
    "type($source) `->` type($destination)", (ins
      Sched_CollectiveKindAttr:$kind, AnyMemRef:$source, AnyMemRef:$destination,
      StrArrayAttr:$axes, DefaultValuedAttr<I64Attr, "-1">:$split_dim,
      DefaultValuedAttr<I64Attr, "-1">:$concat_dim)> {
  let summary = "an all_reduce, all_gather, reduce_scatter or all_to_all";
  let description = [{
    As the operator of `spmd` of this name. A dimension that the kind has no use
    for is -1.
  }];
  let hasVerifier = 1;
}

def Sched_CopyOp : Sched_Command<"copy",
    "$source `into` $destination",
    "type($source) `->` type($destination)", (ins
      AnyMemRef:$source, AnyMemRef:$destination)> {
  let summary = "copies a buffer";
  let hasVerifier = 1;
}

def Sched_FillOp : Sched_Command<"fill", "$destination", "type($destination)",
    (ins AnyMemRef:$destination)> {
  let summary = "fills a buffer with zeros";
}

def Sched_CheckOp : Sched_Command<"check",
    "$kind $what $source",
    "type($source)", (ins
      Sched_CheckKindAttr:$kind, AnyMemRef:$source, StrAttr:$what)> {
  let summary = "refuses the step, before it changed anything, if a value is not finite, or not true";
  let description = [{
    `what` is what has to be finite, or the whole error of what has to be true.
  }];
  let hasVerifier = 1;
}

/// Commands and events between the two run `spmd.iterations` times, on each
/// queue.
class Sched_LoopEnd<string mnemonic> : Tandem_Op<Sched_Dialect, mnemonic> {
  let arguments = (ins Sched_NumberAttr:$loop);
  let assemblyFormat = "$loop attr-dict";
}
def Sched_BeginLoopOp : Sched_LoopEnd<"begin_loop"> {
  let summary = "a loop of commands begins";
}
def Sched_EndLoopOp : Sched_LoopEnd<"end_loop"> {
  let summary = "a loop of commands ends";
}

def Sched_RecordOp : Tandem_Op<Sched_Dialect, "record"> {
  let summary = "an event: all commands of a queue up to here are done";
  let arguments = (ins Sched_QueueAttr:$queue);
  let results = (outs Sched_EventType:$event);
  let assemblyFormat = "custom<Queue>($queue) attr-dict";
}

def Sched_WaitOp : Tandem_Op<Sched_Dialect, "wait"> {
  let summary = "a queue goes on when the event has happened";
  let arguments = (ins Sched_QueueAttr:$queue, Sched_EventType:$event);
  let assemblyFormat = "custom<Queue>($queue) `for` $event attr-dict";
}

#endif // TANDEM_DIALECT_SCHED_COMMANDS_TD
