//===- Sched.td - the sched dialect: time ------------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_TD
#define TANDEM_DIALECT_SCHED_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/Facts.td"

def Sched_Dialect : Dialect {
  let name = "sched";
  let cppNamespace = "::tandem::sched";
  let summary = "when it happens: queues, events, steps, stages, strands";
  let description = [{
    A device has queues, each with a role, and each runs its steps in order. How
    many there are says the device that the module names, or a list of the
    module's own: `compute` is the first queue that computes, `comm[1]` the second
    one that communicates. From `lower` on a queue runs commands on buffers.
    A step is enqueued with the events that it waits for,
    and gives an event of its own. A stage is a communication step followed by a
    computation step (HiDup, section 4.1); a strand is one point of a time axis,
    that is, one microbatch.

    Facts are declared attributes (`Facts.h`); any other name is an error.

    | attribute | of | says |
    | --- | --- | --- |
    | `sched.slot` | operators | stage, strand and lane, within `schedule` |
    | `sched.kernel` | functions | it is a kernel of the step, from `lower` on |
    | `sched.label` | operators | what a user would call it, within `lower` |
    | `sched.again` | operators | each kernel that reads it makes it again, within `lower` |
    | `sched.arena` | modules | bytes of the arena, at the end of `lower` |
    | `sched.device` | modules | `#sched.device<cpu>`: what it is compiled for; none: a CPU |
    | `sched.queues` | modules | the queues of a rank by their number in the Program; none: the device's |
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = "void addFacts();";
  let discardableAttrs = (ins "::mlir::DenseI64ArrayAttr":$slot,
                              "::mlir::UnitAttr":$kernel,
                              "::mlir::StringAttr":$label,
                              "::mlir::UnitAttr":$again,
                              "::mlir::IntegerAttr":$arena,
                              "::tandem::sched::DeviceAttr":$device,
                              "::mlir::ArrayAttr":$queues);
}

def Sched_EventType : TypeDef<Sched_Dialect, "Event"> {
  let mnemonic = "event";
  let summary = "the completion of a step";
}

//===----------------------------------------------------------------------===//
// Devices and their queues
//===----------------------------------------------------------------------===//

def Sched_DeviceAttr : AttrDef<Sched_Dialect, "Device"> {
  let mnemonic = "device";
  let summary = "the kind of device that a module is compiled for";
  let description = [{
    `#sched.device<cpu>`. Passes ask its description (`Device/Device.h`) for what
    depends on the device; a name without description is an error.
  }];
  let parameters = (ins StringRefParameter<>:$name);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Sched_QueueRole : I32EnumAttr<"QueueRole", "what a queue is for", [
    I32EnumAttrCase<"Compute", 0, "compute">,
    I32EnumAttrCase<"Communication", 1, "comm">,
    I32EnumAttrCase<"Copy", 2, "copy">]> {
  let cppNamespace = "::tandem::sched";
  let genSpecializedAttr = 0;
}

def Sched_QueueAttr : AttrDef<Sched_Dialect, "Queue"> {
  let mnemonic = "queue";
  let summary = "a queue of a rank";
  let description = [{
    Its role, and its number among the queues of that role, from 0 on:
    `#sched.queue<compute>`, `#sched.queue<comm[1]>`. Steps and commands write
    `on comm[1]`. Its number in the Program is its place in the list of the
    module's queues (class `Queues` in `Place.h`).
  }];
  let parameters = (ins "::tandem::sched::QueueRole":$role, "unsigned":$number);
  let hasCustomAssemblyFormat = 1;
}

/// An amount.
def Sched_CountAttr : ConfinedAttr<I64Attr, [IntNonNegative]>;

/// The number of a stage or strand, for which a Program has 32 bits.
def Sched_NumberAttr
    : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<2147483647>]>;

def Sched_StepOp : Tandem_Op<Sched_Dialect, "step", [
    SingleBlockImplicitTerminator<"YieldOp">, NoRegionArguments]> {
  let summary = "work enqueued on a queue";
  let description = [{
    Lives from `schedule` on. The body reads values from above: those of earlier
    steps of the same queue, and those of steps of other queues whose events
    it (or an earlier step of its queue) waits for. The verifier of the schedule
    stage checks this. Steps of one queue run in the order of the text.

    ```mlir
    %1, %e1 = sched.step on comm stage 3 strand 0 after(%e0) {
      %r = spmd.all_reduce %0 over ["data"] : tensor<8xf32> -> tensor<8xf32>
      sched.yield %r : tensor<8xf32>
    } : tensor<8xf32>
    ```
  }];
  let arguments = (ins Sched_QueueAttr:$queue, Sched_NumberAttr:$stage,
                       Sched_NumberAttr:$strand,
                       Variadic<Sched_EventType>:$after);
  let results = (outs Variadic<AnyStaticShapeTensor>:$values,
                      Sched_EventType:$event);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Sched_YieldOp : Tandem_Op<Sched_Dialect, "yield", [
    Pure, Terminator, ReturnLike, HasParent<"StepOp">]> {
  let summary = "the values of a step";
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$values);
  let builders = [OpBuilder<(ins), [{ /* no values */ }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

def Sched_CollectiveKind : I32EnumAttr<"CollectiveKind", "what a collective does", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"AllGather", 1, "all_gather">,
    I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">]> {
  let cppNamespace = "::tandem::sched";
  let genSpecializedAttr = 0;
}
def Sched_CheckKind : I32EnumAttr<"CheckKind", "what a check asks of a value", [
    I32EnumAttrCase<"Finite", 0, "finite">,
    I32EnumAttrCase<"True", 1, "true">
  ]> {
  let cppNamespace = "::tandem::sched";
  let genSpecializedAttr = 0;
}

def Sched_CheckKindAttr
    : EnumAttr<Sched_Dialect, Sched_CheckKind, "check_kind">;

def Sched_CollectiveKindAttr
    : EnumAttr<Sched_Dialect, Sched_CollectiveKind, "collective">;

def Sched_ConvolutionKind : I32EnumAttr<"ConvolutionKind",
    "what is computed of a convolution", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"InputGradient", 1, "input_gradient">,
    I32EnumAttrCase<"WeightGradient", 2, "weight_gradient">]> {
  let cppNamespace = "::tandem::sched";
  let genSpecializedAttr = 0;
}
def Sched_ConvolutionKindAttr
    : EnumAttr<Sched_Dialect, Sched_ConvolutionKind, "convolution">;

def Sched_Epilogue : I32EnumAttr<"Epilogue",
    "what a product does with a sum before it writes it", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"Gelu", 1, "gelu">,
    I32EnumAttrCase<"GeluGradient", 2, "gelu_gradient">]> {
  let cppNamespace = "::tandem::sched";
  let genSpecializedAttr = 0;
}
def Sched_EpilogueAttr : EnumAttr<Sched_Dialect, Sched_Epilogue, "epilogue">;

def Sched_Summed : I32EnumAttr<"Summed",
    "the operand of a product whose sums over k are kept", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"Lhs", 1, "lhs">,
    I32EnumAttrCase<"Rhs", 2, "rhs">]> {
  let cppNamespace = "::tandem::sched";
  let genSpecializedAttr = 0;
}
def Sched_SummedAttr : EnumAttr<Sched_Dialect, Sched_Summed, "summed">;

include "tandem/Dialect/Sched/Commands.td"

#endif // TANDEM_DIALECT_SCHED_TD
