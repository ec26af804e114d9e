//===- SPMD.td - the spmd dialect: placement ---------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_TD
#define TANDEM_DIALECT_SPMD_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/Facts.td"
include "tandem/Dialect/SPMD/SPMDInterfaces.td"

def SPMD_Dialect : Dialect {
  let name = "spmd";
  let cppNamespace = "::tandem::spmd";
  let summary = "where the pieces of every tensor are";
  let description = [{
    A cluster is a mesh of named axes. An axis is *space* (its points are groups
    of devices) or *time* (its points are microbatches that one device runs one
    after the other). A tensor has one form per axis (HiDup, section 4.1):
    `full`, `gather(d)`, `reduce`, or on space axes `at(i)`. Forms stand in
    tensor types, as encoding, so that a program that forgot a collective does
    not verify.

    `at(i)` says that point i alone holds the tensor. An operator whose operands
    are `at(i)` or `full` gives results that are `at(i)`, whatever its rule:
    point i alone runs it. These changes of form exist:

    | change | cost | behind `localize` |
    | --- | --- | --- |
    | `full -> at(i)` | free | `spmd.keep_at` |
    | `at(i) -> reduce` | free, the others hold zero | `spmd.zero_others` |
    | `at(i) -> at(j)` | one point sends to another | `spmd.transfer` |
    | `at(i) -> full` | one point sends to all | `spmd.broadcast` |
    | `reduce -> at(i)` | a sum that one point gets | `spmd.reduce` |

    Facts are declared attributes (`Facts.h`); any other name is an error.

    | attribute | of | says |
    | --- | --- | --- |
    | `spmd.mesh` | modules | the mesh |
    | `spmd.memory` | modules | bytes that a device of the plan's cluster has for tensors, if the plan fits into them |
    | `spmd.plan` | all | what a plan decided about it (`Planned.h`), until the pass that takes it out |
    | `spmd.layout` | arguments, results | from `localize` on: the whole tensor and its forms |
    | `spmd.change` | operators | it is a part of a change of form, as `localize` and `duplex` take reforms apart |
    | `spmd.loop` | operators | the number of the loop that it is in, from the accumulate stage on; none if it runs once |
    | `spmd.iterations` | functions | how often each loop runs |
    | `spmd.sections` | modules | the point of each section, by its number (`--tandem-cut`) |
    | `spmd.pipe` | modules | the axis on whose points sections lie |
    | `spmd.section` | operators, arguments | the number of its section; none: every point has it |
    | `spmd.iterated` | arguments | the dimension that counts iterations; outside of the step it is the major part of the next one |
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = "void addFacts();";
  let discardableAttrs = (ins "::tandem::spmd::MeshAttr":$mesh,
                              "::mlir::IntegerAttr":$memory,
                              "::tandem::spmd::PlanAttr":$plan,
                              "::mlir::TypeAttr":$layout,
                              "::mlir::UnitAttr":$change,
                              "::mlir::IntegerAttr":$loop,
                              "::mlir::IntegerAttr":$iterations,
                              "::mlir::IntegerAttr":$iterated,
                              "::mlir::DenseI64ArrayAttr":$sections,
                              "::mlir::StringAttr":$pipe,
                              "::mlir::IntegerAttr":$section);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class SPMD_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<SPMD_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def SPMD_MeshAttr : SPMD_Attr<"Mesh", "mesh"> {
  let summary = "named axes of devices (space) and of microbatches (time)";
  let description = [{
    ```mlir
    #mesh = #spmd.mesh<data = 4, model = 2, time micro = 2>
    ```
    Time axes come last in the text. Where a dimension is split over several
    axes, the order from major to minor is time axes first, then space axes in
    the order of the mesh (`getLayoutOrder`). A rank is the row-major linear
    index of its coordinates on the space axes.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes,
                        "unsigned":$numTimeAxes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    unsigned getNumAxes() const { return getNames().size(); }
    unsigned getNumSpaceAxes() const { return getNumAxes() - getNumTimeAxes(); }
    bool isTime(unsigned axis) const { return axis >= getNumSpaceAxes(); }
    int64_t getSize(unsigned axis) const { return getSizes()[axis]; }
    ::llvm::StringRef getName(unsigned axis) const {
      return getNames()[axis].getValue();
    }
    /// The axis called `name`, or none.
    std::optional<unsigned> lookup(::llvm::StringRef name) const;
    /// Number of devices: product of the sizes of the space axes.
    int64_t getNumRanks() const;
    /// Number of strands: product of the sizes of the time axes.
    int64_t getNumStrands() const;
    /// Axes from major to minor where several split one dimension.
    ::llvm::SmallVector<unsigned> getLayoutOrder() const;
    /// Coordinates on the space axes of `rank`.
    ::llvm::SmallVector<int64_t> getCoordinates(int64_t rank) const;
  }];
}

def SPMD_FormAttr : SPMD_Attr<"Form", "form", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "the form of a tensor on every axis of a mesh";
  let description = [{
    ```mlir
    tensor<64x4096xf32, #spmd.form<#mesh, data: gather(0), model: reduce>>
    ```
    is the type of the *global* tensor, of which every device holds what its
    forms say. An axis that is not named is `full`. A tensor that is `full` on
    all axes has no encoding at all: one meaning, one type.

    `localize` takes `gather` and `reduce` of space axes off, and shapes become
    those of a device. It leaves `at`, so that a forgotten transfer does not
    verify there either. A device at another point has no such tensor.
  }];
  // One entry per axis: `AxisForm::getCode()`.
  let parameters = (ins "::tandem::spmd::MeshAttr":$mesh,
                        ArrayRefParameter<"int64_t">:$codes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// What a plan decided
//===----------------------------------------------------------------------===//

def SPMD_SignaturesAttr : SPMD_Attr<"Signatures", "signatures"> {
  let summary = "the signature of an operator on every axis of a mesh";
  let description = [{
    ```mlir
    #spmd.signatures<"gather(0), full -> gather(0)", "full, full -> full">
    ```
    in the order of the mesh.
  }];
  // Per axis the codes (`AxisForm::getCode()`) of operands, then results.
  let parameters = (ins "unsigned":$numOperands, "unsigned":$numResults,
                        ArrayRefParameter<"int64_t">:$codes);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static SignaturesAttr get(::mlir::MLIRContext *context,
                              ::llvm::ArrayRef<Signature> signatures);
    unsigned getNumAxes() const;
    Signature getSignature(unsigned axis) const;
  }];
}

def SPMD_CopyAttr : SPMD_Attr<"Copy", "copy"> {
  let summary = "how operators of a pass get a value in other forms";
  let description = [{
    ```mlir
    #spmd.copy<"0 forward kept full, gather(0) -> full, full">
    ```
    The number of the result (0 of an argument), the pass, whether a later pass
    takes the same copy, and the forms on the way, one per axis and one change
    each. It begins with the forms in which the value is made, or with those of
    another copy.
  }];
  let parameters = (ins "unsigned":$result, "::mlir::StringAttr":$pass,
                        "bool":$isKept, "unsigned":$numAxes,
                        ArrayRefParameter<"int64_t">:$codes);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static CopyAttr get(::mlir::MLIRContext *context, unsigned result,
                        const Copy &copy);
    Copy getCopy() const;
  }];
}

def SPMD_WaitAttr : SPMD_Attr<"Wait", "wait"> {
  let summary = "a gradient's copy whose collectives wait";
  let description = [{
    ```mlir
    #spmd.wait<"0 gather(0), full in 20/1 0.25, 21/0 1 then 21/0 1">
    ```
    The number of the result, its forms, and for each of the collectives that
    lead to them the slots (stage and strand) in which its pieces are sent, with
    the share of it that is done behind each. Slots that are not given are
    chosen by the schedule.
  }];
  let parameters = (ins "unsigned":$result, ArrayRefParameter<"int64_t">:$codes,
                        ArrayRefParameter<"::tandem::spmd::PiecesAttr">:$pieces);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static WaitAttr get(::mlir::MLIRContext *context, unsigned result,
                        const Wait &wait);
    Wait getWait() const;
  }];
}

def SPMD_PiecesAttr : SPMD_Attr<"Pieces", "pieces"> {
  let summary = "the slots in which a waiting collective is sent";
  let description = [{
    ```mlir
    #spmd.pieces<"20/1 0.25, 21/0 1">
    ```
    as in `#spmd.wait`; empty where no slot is given.
  }];
  let parameters = (ins ArrayRefParameter<"::tandem::spmd::Piece">:$pieces);
  let hasCustomAssemblyFormat = 1;
}

def SPMD_PricesAttr : SPMD_Attr<"Prices", "prices"> {
  let summary = "what a plan was priced by, and what it costs";
  let description = [{
    ```mlir
    #spmd.prices<cost = 1.5e-03 : f64, compute_slowdown = 1.0 : f64,
                 collective_slowdown = 1.25 : f64,
                 rates = {data = array<f64: 1.0e-05, 1.0e-10, ...>}>
    ```
    Seconds, slow-downs of computation beside a collective and the other way
    round, and per axis latency (s) and time (s/B) of an all-gather, a
    reduce-scatter, an all-reduce and an all-to-all (Cost/SearchProblem.h).
  }];
  let parameters = (ins "::mlir::FloatAttr":$cost,
                        "::mlir::FloatAttr":$compute_slowdown,
                        "::mlir::FloatAttr":$collective_slowdown,
                        "::mlir::DictionaryAttr":$rates);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def SPMD_PlanAttr : SPMD_Attr<"Plan", "plan"> {
  let summary = "what a plan decided about an operator, argument or result";
  let description = [{
    ```mlir
    spmd.plan = #spmd.plan<["gather(0), full -> gather(0)"], stage = 3,
                           copies = ["0 update reduce -> full"]>
    ```
    The plan stage writes it, `shard` takes signatures, forms and copies out of
    it and gives what it makes the rest, `schedule` takes stages and slots, and
    seconds are there for predictions. `Planned.h` says what the parts mean, and
    is how they are read and written.
  }];
  let parameters = (ins
      OptionalParameter<"::tandem::spmd::SignaturesAttr">:$signatures,
      "bool":$asWanted,
      OptionalParameter<"::tandem::spmd::FormAttr">:$form,
      OptionalArrayRefParameter<"::tandem::spmd::CopyAttr">:$copies,
      OptionalArrayRefParameter<"::tandem::spmd::WaitAttr">:$waits,
      OptionalParameter<"::mlir::IntegerAttr">:$stage,
      "bool":$joins,
      OptionalParameter<"::tandem::spmd::PiecesAttr">:$pieces,
      OptionalParameter<"::mlir::FloatAttr">:$seconds,
      OptionalParameter<"::mlir::FloatAttr">:$latency,
      OptionalArrayRefParameter<"int64_t">:$inTurn,
      OptionalParameter<"::tandem::spmd::PricesAttr">:$prices);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

class SPMD_Op<string mnemonic, list<Trait> traits = []>
    : Tandem_Op<SPMD_Dialect, mnemonic, traits # [Pure]>;

def SPMD_ReformOp : SPMD_Op<"reform"> {
  let summary = "changes the form of a tensor";
  let description = [{
    Lives from `shard` to `duplex`. The value stays the same; its form on one or
    more axes changes. After `shard` a reform changes exactly one axis, and that
    axis is the minor-most one on the dimension that it leaves and becomes the
    minor-most one on the dimension that it enters, so that it is one plain
    collective (space) or one plain local operation (time).

    ```mlir
    %1 = spmd.reform %0 : tensor<8x4xf32, #spmd.form<#mesh, data: reduce>> -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

/// Exchanges data among the members of a group (`isCollective`).
def SPMD_Communicates : NativeOpTrait<"Communicates"> {
  let cppNamespace = "::tandem::spmd";
}

/// Runs over the groups of ranks that `axes` span.
class SPMD_GroupOp<string mnemonic, dag extraArguments = (ins),
                   list<Trait> traits = []>
    : SPMD_Op<mnemonic, traits> {
  let arguments = !con((ins AnyStaticShapeTensor:$input, StrArrayAttr:$axes),
                       extraArguments);
  let results = (outs AnyStaticShapeTensor:$result);
  let hasVerifier = 1;
}

class SPMD_CollectiveOp<string mnemonic, dag extraArguments = (ins)>
    : SPMD_GroupOp<mnemonic, extraArguments, [SPMD_Communicates]>;

def SPMD_AllReduceOp : SPMD_CollectiveOp<"all_reduce"> {
  let summary = "sums over the members of a group; every member gets the sum";
  let description = [{
    Lives from `localize` on, on per-device shapes. The group of a rank is all
    ranks that differ from it only in their coordinates on `axes`.
  }];
  let assemblyFormat = [{
    $input `over` $axes attr-dict `:` type($input) `->` type($result)
  }];
}

def SPMD_AllGatherOp : SPMD_CollectiveOp<"all_gather", (ins I64Attr:$dim)> {
  let summary = "concatenates the members' slices of dimension `dim`";
  let assemblyFormat = [{
    $input `over` $axes `dim` $dim attr-dict `:` type($input) `->`
    type($result)
  }];
}

def SPMD_ReduceScatterOp
    : SPMD_CollectiveOp<"reduce_scatter", (ins I64Attr:$dim)> {
  let summary = "sums over the members; each keeps its slice of `dim`";
  let assemblyFormat = [{
    $input `over` $axes `dim` $dim attr-dict `:` type($input) `->`
    type($result)
  }];
}

def SPMD_AllToAllOp
    : SPMD_CollectiveOp<"all_to_all", (ins I64Attr:$split_dim,
                                           I64Attr:$concat_dim)> {
  let summary = "cuts `split_dim` over the members, joins along `concat_dim`";
  let description = [{
    `gather(concat_dim) -> gather(split_dim)`: a member sends the j-th piece of
    `split_dim` to member j, and concatenates what it receives along
    `concat_dim` in the order of the members.
  }];
  let assemblyFormat = [{
    $input `over` $axes `split` $split_dim `concat` $concat_dim attr-dict `:`
    type($input) `->` type($result)
  }];
}

def SPMD_LocalSliceOp
    : SPMD_GroupOp<"local_slice", (ins I64Attr:$dim),
                   [DeclareOpInterfaceMethods<SPMD_LoopOpInterface>]> {
  let summary = "keeps this member's slice of `dim`; no communication";
  let description = "`full -> gather(dim)` over space, after `localize`.";
  let assemblyFormat = [{
    $input `over` $axes `dim` $dim attr-dict `:` type($input) `->`
    type($result)
  }];
}

def SPMD_KeepFirstOp
    : SPMD_GroupOp<"keep_first", (ins),
                   [DeclareOpInterfaceMethods<SPMD_LoopOpInterface>]> {
  let summary = "the first member keeps the value, the others hold zero";
  let description = "`full -> reduce` over space, after `localize`.";
  let assemblyFormat = [{
    $input `over` $axes attr-dict `:` type($input) `->` type($result)
  }];
}

//===----------------------------------------------------------------------===//
// One point of an axis
//===----------------------------------------------------------------------===//

def SPMD_TransferOp
    : SPMD_GroupOp<"transfer", (ins I64Attr:$from, I64Attr:$to)> {
  let summary = "sends a tensor from point `from` to point `to` of an axis";
  let description = [{
    `at(from) -> at(to)` over space, after `localize`. Only these two points of
    each group take part, so that it is no collective: the common order of
    collectives does not bind it.

    ```mlir
    %1 = spmd.transfer %0 over ["pipe"] from 0 to 1 : tensor<8xf32, #spmd.form<#mesh, pipe: at(0)>> -> tensor<8xf32, #spmd.form<#mesh, pipe: at(1)>>
    ```
  }];
  let assemblyFormat = [{
    $input `over` $axes `from` $from `to` $to attr-dict `:` type($input) `->`
    type($result)
  }];
}

def SPMD_BroadcastOp : SPMD_GroupOp<"broadcast", (ins I64Attr:$from)> {
  let summary = "sends a tensor from point `from` of an axis to all points";
  let description = [{
    `at(from) -> full` over space, after `localize`: a transfer to each of the
    other points.
  }];
  let assemblyFormat = [{
    $input `over` $axes `from` $from attr-dict `:` type($input) `->`
    type($result)
  }];
}

def SPMD_ReduceOp : SPMD_CollectiveOp<"reduce", (ins I64Attr:$to)> {
  let summary = "sums over the points of an axis; point `to` gets the sum";
  let description = "`reduce -> at(to)` over space, after `localize`.";
  let assemblyFormat = [{
    $input `over` $axes `to` $to attr-dict `:` type($input) `->` type($result)
  }];
}

def SPMD_KeepAtOp : SPMD_GroupOp<"keep_at", (ins I64Attr:$point)> {
  let summary = "one point of an axis keeps the value, the others drop it";
  let description = "`full -> at(point)` over space, after `localize`.";
  let assemblyFormat = [{
    $input `over` $axes `point` $point attr-dict `:` type($input) `->`
    type($result)
  }];
}

def SPMD_ZeroOthersOp : SPMD_GroupOp<"zero_others", (ins I64Attr:$point)> {
  let summary = "one point of an axis keeps the value, the others hold zero";
  let description = "`at(point) -> reduce` over space, after `localize`.";
  let assemblyFormat = [{
    $input `over` $axes `point` $point attr-dict `:` type($input) `->`
    type($result)
  }];
}

def SPMD_CoordinateOp : SPMD_Op<"coordinate", [SPMD_Source,
                                               SignatureOpInterface]> {
  let summary = "this rank's coordinate on a space axis, or the iteration";
  let description = [{
    Lives from `localize` on: operators that must know where they are use it
    (an embedding whose vocabulary is split, `nn.iota`). In a loop, and from the
    accumulate stage on, the axis `.iteration` counts iterations.
  }];
  let arguments = (ins StrAttr:$axis);
  let results = (outs 0DTensorOf<[I64]>:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::tandem::spmd::Rule getRule();
    bool isIteration() { return getAxis() == ::tandem::spmd::kIterationAxis; }
  }];
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// What enters a loop and leaves it, from the accumulate stage on. All
/// operators of a loop have its number in `spmd.loop`, and run
/// `spmd.iterations` times; what is read behind the loop is what the last
/// iteration makes.
class SPMD_LoopBoundaryOp<string mnemonic, list<Trait> traits = []>
    : SPMD_Op<mnemonic, [SignatureOpInterface] # traits> {
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = "::tandem::spmd::Rule getRule();";
}

def SPMD_EnterOp : SPMD_LoopBoundaryOp<"enter"> {
  let summary = "what this iteration has of a tensor whose dimension 0 counts iterations";
  let description = [{
    ```mlir
    %1 = spmd.enter %batch {spmd.loop = 0 : i64} : tensor<4x8x16xf32> -> tensor<8x16xf32>
    ```
  }];
}

/// Its result is read behind the loop only.
def SPMD_Carried : NativeOpTrait<"Carried"> {
  let cppNamespace = "::tandem::spmd";
}

def SPMD_CarryOp : SPMD_LoopBoundaryOp<"carry", [SPMD_Carried]> {
  let summary = "the sum of this and all earlier iterations";
}

def SPMD_CollectOp : SPMD_LoopBoundaryOp<"collect", [SPMD_Carried]> {
  let summary = "what all iterations make, one behind the other in a new dimension 0";
  let description = [{
    ```mlir
    %1 = spmd.collect %rows {spmd.loop = 0 : i64} : tensor<8xf32> -> tensor<4x8xf32>
    ```
  }];
}

#endif // TANDEM_DIALECT_SPMD_TD
