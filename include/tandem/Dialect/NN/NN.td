//===- NN.td - what is computed ----------------------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_TD
#define TANDEM_DIALECT_NN_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/SPMD/SPMDInterfaces.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::tandem::nn";
  let summary = "what is computed: tensor operators with the meaning of core ATen";
  let description = [{
    Operators on ranked, static builtin tensors. Elementwise operators broadcast
    as NumPy does, on operands of equal element type; scalars are rank-0
    tensors. No operator reads a divisor or a position from its own shape, so
    that an operator on a shard means the shard of the operator: a mean is a sum
    and a constant, a triangular mask is made from `nn.iota`.

    Every operator states in its definition how its dimensions relate: a rule
    (`Rule.h`), as text, or the name of a builder where the rule depends on
    types or attributes. All sharding signatures come from it.

    A training step is a `func.func` whose arguments carry `nn.role`
    (`parameter`, `state`, `buffer`, `step`, `seed`, `learning_rate`, `input`)
    and `nn.name`; its results carry `nn.role` (`loss`, `gradient`, or the role
    of what they update), `nn.name`, and `nn.updates`, the index of the argument
    whose new value they are. Operators carry `nn.pass`: `forward`, `backward`
    or `update`; the import stage gives each an `nn.id`.
  }];
  let dependentDialects = ["::tandem::spmd::SPMDDialect"];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral kRoleAttrName = "nn.role";
    static constexpr ::llvm::StringLiteral kNameAttrName = "nn.name";
    static constexpr ::llvm::StringLiteral kUpdatesAttrName = "nn.updates";
    static constexpr ::llvm::StringLiteral kPassAttrName = "nn.pass";
    static constexpr ::llvm::StringLiteral kIdAttrName = "nn.id";
  }];
}

//===----------------------------------------------------------------------===//
// Classes of operators
//===----------------------------------------------------------------------===//

/// An operator whose rule is a text. Groups of operands in which it is linear:
/// `0 1` together, `0 | 1` separately.
class NN_TextRuleOp<string mnemonic, string rule, string linear = "",
                    list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, traits # [Pure, SignatureOpInterface]> {
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat =
      "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static ::llvm::StringRef getRuleText() { return "}] # rule # [{"; }
    ::tandem::spmd::Rule getRule() {
      return ::tandem::spmd::withoutSumsOfTruth(
          getOperation(),
          ::tandem::spmd::parseRule(getOperation(), getRuleText(), "}]
      # linear # [{"));
    }
  }];
}

/// An operator whose rule is made by the function `builder` of `Rules.h`, which
/// gets the operation and the groups of operands in which it is linear.
class NN_BuilderRuleOp<string mnemonic, string builder, string linear = "",
                       list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, traits # [Pure, SignatureOpInterface]> {
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat =
      "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::tandem::spmd::Rule getRule() {
      return ::tandem::spmd::withoutSumsOfTruth(
          getOperation(),
          ::tandem::nn::build}] # builder # [{Rule(getOperation(), "}]
      # linear # [{"));
    }
  }];
}

include "tandem/Dialect/NN/Elementwise.td"
include "tandem/Dialect/NN/Reductions.td"
include "tandem/Dialect/NN/Shapes.td"
include "tandem/Dialect/NN/Products.td"

#endif // TANDEM_DIALECT_NN_TD
