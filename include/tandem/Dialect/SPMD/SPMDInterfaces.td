//===- SPMDInterfaces.td - interfaces of signatures --------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_INTERFACES_TD
#define TANDEM_DIALECT_SPMD_INTERFACES_TD

include "mlir/IR/OpBase.td"

def SignatureOpInterface : OpInterface<"SignatureOpInterface"> {
  let cppNamespace = "::tandem::spmd";
  let description = [{
    An operator whose results' forms follow from its operands' forms by a rule
    (`Rule.h`). The verifier checks on every axis that the forms in the types
    are one of the rule's signatures.
  }];
  let methods = [
    InterfaceMethod<"The sharding rule, for the shapes in the types.",
                    "::tandem::spmd::Rule", "getRule">,
  ];
  // With regions: after the operator's own verifier, so that shapes are right.
  let verifyWithRegions = 1;
  let verify = [{ return ::tandem::spmd::verifySignature($_op); }];
}

def SPMD_LoopOpInterface : OpInterface<"LoopOpInterface"> {
  let cppNamespace = "::tandem::spmd";
  let description = [{
    An operator that is computed by loops which it may share with others in one
    kernel (`Loops.h`).
  }];
  let methods = [
    InterfaceMethod<"Its loops; none where it shares none.",
                    "std::optional<::tandem::spmd::LoopOp>", "getLoops">,
  ];
}

/// Makes its result of nothing: it may be made again wherever it is read. Its
/// verifier is the trait's.
def SPMD_Source : NativeOpTrait<"Source"> {
  let cppNamespace = "::tandem::spmd";
}

def LocalizeOpInterface : OpInterface<"LocalizeOpInterface"> {
  let cppNamespace = "::tandem::spmd";
  let description = [{
    An operator that must know where its shard lies, since it has positions or
    shapes in attributes, or makes positions (an embedding whose rows are split,
    `nn.iota`). `localize` (space axes) and `duplex` (time axes) take axes off
    the forms by calling `buildShard`; any other operator is only given the
    types of its shard. An operator whose signatures are right for the shard as
    it is, must not implement this.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds what the point described by `shard` computes, and gives the new
      results, of the types `shard.getResultTypes()`. The operands to use are
      `shard.getOperands()`; those of the operator itself are still whole.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildShard",
      (ins "::mlir::OpBuilder &":$builder,
           "const ::tandem::spmd::Shard &":$shard)>,
  ];
}

#endif // TANDEM_DIALECT_SPMD_INTERFACES_TD
