//===- NN.td - the nn dialect: computation -----------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_TD
#define TANDEM_DIALECT_NN_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/Facts.td"
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

    A training step is a `func.func`. Facts about it are declared attributes
    (`Facts.h`); any other name is an error.

    | attribute | of | says |
    | --- | --- | --- |
    | `nn.role` | arguments, results | `#nn.role<parameter>`, ...: what it is to training |
    | `nn.name` | arguments, results | the model's name for it |
    | `nn.aliases` | arguments | further names of a tied parameter |
    | `nn.of` | arguments | of a state: the parameter that it belongs to |
    | `nn.part` | arguments, results | `#nn.part<...>`: where it lies in a tensor of the model |
    | `nn.batch_dim` | arguments | the dimension that counts the sequences of a batch |
    | `nn.range` | arguments | smallest and largest value that capture saw |
    | `nn.updates` | results | the argument whose new value it is |
    | `nn.pass` | operators | `#nn.pass<forward>`, ...: the pass that it belongs to |
    | `nn.id` | operators | its number, from the import stage on |
    | `nn.strand` | operators | its strand, from the duplex stage on; none if strands share it |
    | `nn.join` | operators | the change of form by which strands join here |
    | `nn.again` | operators | unit: it makes again what another operator made |
    | `nn.source` | `nn.either` | the operand that the plan chose; 0 without it |
  }];
  let dependentDialects = ["::tandem::spmd::SPMDDialect"];
  let useDefaultAttributePrinterParser = 1;
  let discardableAttrs = (ins "::tandem::nn::RoleAttr":$role,
                              "::mlir::StringAttr":$name,
                              "::mlir::ArrayAttr":$aliases,
                              "::mlir::StringAttr":$of,
                              "::tandem::nn::PartAttr":$part,
                              "::mlir::IntegerAttr":$batch_dim,
                              "::mlir::ArrayAttr":$range,
                              "::mlir::IntegerAttr":$updates,
                              "::tandem::nn::PassKindAttr":$pass,
                              "::mlir::IntegerAttr":$id,
                              "::mlir::IntegerAttr":$strand,
                              "::mlir::StringAttr":$join,
                              "::mlir::UnitAttr":$again,
                              "::mlir::IntegerAttr":$source);
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = "void addFacts();";
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class NN_Enum<string name, string summary, list<string> symbols,
              list<string> keywords>
    : I32EnumAttr<name, summary, !foreach(i, !range(symbols),
                      I32EnumAttrCase<symbols[i], i, keywords[i]>)> {
  let cppNamespace = "::tandem::nn";
  let genSpecializedAttr = 0;
}

/// Stands in the list of attributes: `#nn.pass<forward>`.
class NN_FactAttr<EnumInfo enum, string name>
    : EnumAttr<NN_Dialect, enum, name> {
  let assemblyFormat = "`<` $value `>`";
}

def NN_PassKind : NN_Enum<"PassKind", "a pass of a training step",
    ["Forward", "Backward", "Update"], ["forward", "backward", "update"]>;
def NN_PassKindAttr : NN_FactAttr<NN_PassKind, "pass">;

/// The roles of arguments come first; the last four are results that update
/// nothing. A check is a boolean that has to be true, or the step is refused; its
/// name is the error.
def NN_Role : NN_Enum<"Role", "what an argument or a result is to training",
    ["Parameter", "State", "Buffer", "Step", "Seed", "LearningRate", "Input",
     "Loss", "Gradient", "Output", "Check"],
    ["parameter", "state", "buffer", "step", "seed", "learning_rate", "input",
     "loss", "gradient", "output", "check"]>;
def NN_RoleAttr : NN_FactAttr<NN_Role, "role">;

def NN_PartAttr : AttrDef<NN_Dialect, "Part"> {
  let mnemonic = "part";
  let summary = "where a part lies in one of the model's tensors";
  let description = [{
    ```mlir
    #nn.part<"qkv.weight" [96, 32], dim = 0, offset = 32>
    ```
    Import takes a parameter apart that holds several side by side. A part is
    the elements from `offset` on of dimension `dim` of the tensor called `name`,
    which has this shape. Values come and go as whole tensors, under the model's
    own names.
  }];
  let parameters = (ins StringRefParameter<"">:$name,
                        ArrayRefParameter<"int64_t">:$shape,
                        "int64_t":$dim, "int64_t":$offset);
  let assemblyFormat = [{
    `<` $name ` ` `[` $shape `]` `,` `dim` `=` $dim `,` `offset` `=` $offset `>`
  }];
  let genVerifyDecl = 1;
}

def NN_Predicate : NN_Enum<"Predicate", "how two numbers compare",
    ["Eq", "Ne", "Lt", "Le", "Gt", "Ge"], ["eq", "ne", "lt", "le", "gt", "ge"]>;
def NN_PredicateAttr : EnumAttr<NN_Dialect, NN_Predicate, "predicate">;

def NN_Approximate : NN_Enum<"Approximate", "how gelu is computed",
    ["None", "Tanh"], ["none", "tanh"]>;
def NN_ApproximateAttr : EnumAttr<NN_Dialect, NN_Approximate, "approximate">;

//===----------------------------------------------------------------------===//
// Classes of operators
//===----------------------------------------------------------------------===//

/// What passes ask of an operator (`NN.h`).
class NN_Trait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::tandem::nn";
}
def NN_View : NN_Trait<"View">;
def NN_Rearrangement : NN_Trait<"Rearrangement">;
def NN_Sums : NN_Trait<"Sums">;
def NN_CostsALoad : NN_Trait<"CostsALoad">;
def NN_MadeAgain : NN_Trait<"MadeAgain">;
def NN_OwnLoops : NN_Trait<"OwnLoops">;
def NN_ReadsIndices : NN_Trait<"ReadsIndices">;
def NN_Lookup : NN_Trait<"Lookup">;

def NN_ScalarOpInterface : OpInterface<"ScalarOpInterface"> {
  let cppNamespace = "::tandem::nn";
  let description = [{
    An elementwise operator, which says what it does to one element. Kernels
    follow from it (`let scalar`).
  }];
  let methods = [
    InterfaceMethod<[{
      Whether it has a meaning for a last operand of this element type.
      }], "bool", "isDefinedFor", (ins "::mlir::Type":$element)>,
    InterfaceMethod<[{
      Writes what becomes of the elements `args` of the operands, in the types in
      which these are computed (`getComputeType`); that of `scalar` is the last
      one's.
      }], "::mlir::Value", "emitScalar",
      (ins "::tandem::nn::Scalar &":$scalar, "::mlir::ValueRange":$args)>,
  ];
}

def NN_PieceOpInterface : OpInterface<"PieceOpInterface"> {
  let cppNamespace = "::tandem::nn";
  let description = [{
    An operator each element of whose result is the element of operand 0, of the
    same rank, at another index. Kernels follow from it.
  }];
  let methods = [
    InterfaceMethod<[{
      Turns the index of an element of the result into that of the element which
      it is, by arithmetic on `index`.
      }], "void", "emitSource",
      (ins "::tandem::nn::Scalar &":$scalar,
           "::llvm::MutableArrayRef<::mlir::Value>":$index)>,
  ];
}

def NN_StridedOpInterface : OpInterface<"StridedOpInterface"> {
  let cppNamespace = "::tandem::nn";
  let description = [{
    A view that the memory of operand 0 may be read as, by strides.
  }];
  let methods = [
    InterfaceMethod<[{
      Where the elements of the result are: turns `strides` and `offset`, in
      elements, of operand 0 into those of the result. False where it cannot be
      reached by strides.
      }], "bool", "moveStrides",
      (ins "::llvm::SmallVectorImpl<int64_t> &":$strides,
           "int64_t &":$offset)>,
  ];
}

def NN_WorkOpInterface : OpInterface<"WorkOpInterface"> {
  let cppNamespace = "::tandem::nn";
  let description = "An operator that says how much it computes.";
  let methods = [
    InterfaceMethod<[{
      Floating-point operations per element of its largest operand or result, as
      its usual implementation does them; 0 if it only moves elements. Those of
      a library's operator are counted by its loops (`LibraryOpInterface`).
      }], "int64_t", "getFlopsPerElement">,
  ];
}

def NN_LibraryOpInterface : OpInterface<"LibraryOpInterface"> {
  let cppNamespace = "::tandem::nn";
  let description = [{
    An operator that a library computes, not a kernel of ours: a matrix product;
    attention and convolution are of this kind. `lower` chooses the call
    (`sched::LibraryCallOpInterface`) in a pass of the operator's own.
  }];
  let methods = [
    InterfaceMethod<"The sizes of its loops, those that are summed included.",
                    "::llvm::SmallVector<int64_t>", "getLoopSizes">,
    InterfaceMethod<"Floating-point operations: two per iteration.", "double",
                    "getFlops", (ins), [{}], [{
      double flops = 2;
      for (int64_t size : $_op.getLoopSizes())
        flops *= static_cast<double>(size);
      return flops;
    }]>,
    InterfaceMethod<[{
      The dimension of operand `number` that the operator sums over, so that it
      is the sum of itself on slices of all operands that have one.
      }], "std::optional<int64_t>", "getSummedDim", (ins "unsigned":$number)>,
    InterfaceMethod<[{
      Whether the library reads operand `number` by strides, so that a
      permutation of it costs nothing.
      }], "bool", "readsByStrides", (ins "unsigned":$number)>,
    InterfaceMethod<[{
      Whether its result may be f32 where its operands are bf16: the sum before
      it is rounded.
      }], "bool", "canWiden", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      Checks that a library has it for the element types; reports if not.
      }], "::llvm::LogicalResult", "verifyLibraryTypes">,
  ];
}

/// What a tensor of `nn` may hold.
def NN_Tensor
    : Type<StaticShapeTensorOf<[F64, F32, F16, BF16, I64, I32, I16, I8,
                                I1]>.predicate,
           "tensor of static shape of f64, f32, f16, bf16, i64, i32, i16, i8 "
           "or i1", "::mlir::RankedTensorType">;

class NN_Op<string mnemonic, list<Trait> traits>
    : Tandem_Op<NN_Dialect, mnemonic,
         traits # [Pure, SignatureOpInterface, NN_WorkOpInterface,
                   SPMD_LoopOpInterface]> {
  int flops = 1;
  /// The function `build<loops>Loops` of `Loops.h`.
  string loops = "No";
  code answers = "int64_t getFlopsPerElement() { return " # flops # [{; }
    ::std::optional<::tandem::spmd::LoopOp> getLoops() {
      return ::tandem::nn::build}] # loops # "Loops(getOperation()); }";
}

/// An operator whose rule is a text. Groups of operands in which it is linear:
/// `0 1` together, `0 | 1` separately.
class NN_TextRuleOp<string mnemonic, string rule, string linear = "",
                    list<Trait> traits = []> : NN_Op<mnemonic, traits> {
  let results = (outs NN_Tensor:$result);
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
  }] # answers;
}

/// An operator whose rule is made by the function `builder` of `Rules.h`, which
/// gets the operation and the groups of operands in which it is linear.
class NN_BuilderRuleOp<string mnemonic, string builder, string linear = "",
                       list<Trait> traits = []> : NN_Op<mnemonic, traits> {
  let results = (outs NN_Tensor:$result);
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
  }] # answers;
}

include "tandem/Dialect/NN/Elementwise.td"
include "tandem/Dialect/NN/Reductions.td"
include "tandem/Dialect/NN/Shapes.td"
include "tandem/Dialect/NN/Products.td"
include "tandem/Dialect/NN/Attention.td"
include "tandem/Dialect/NN/Convolution.td"
include "tandem/Dialect/NN/Pooling.td"

#endif // TANDEM_DIALECT_NN_TD
