//===- Elementwise.td - elementwise operators ----------------- -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

/// Broadcasts its operands as NumPy does. Its verifier is the trait's.
def NN_Broadcasting : NN_Trait<"Broadcasting">;

/// Says by `scalar` what becomes of the elements `x`, `y` and `z` of its
/// operands: `s` is a `Scalar`, of the type of the last one, which is verified to
/// be in `domain` (Any, Float, Integer, Bool).
class NN_ElementwiseOp<string mnemonic, string linear = "",
                       string builder = "Elementwise", list<Trait> traits = []>
    : NN_BuilderRuleOp<mnemonic, builder, linear,
                       traits # [NN_Broadcasting, NN_MadeAgain,
                         DeclareOpInterfaceMethods<NN_ScalarOpInterface>]> {
  let hasVerifier = 0;
  let loops = "Elementwise";
  string scalar = ?;
  string domain = "Any";
  let extraClassDefinition = [{
    bool $cppClass::isDefinedFor(::mlir::Type element) {
      return ::tandem::nn::is}] # domain # [{(element);
    }
    ::mlir::Value $cppClass::emitScalar(::tandem::nn::Scalar &s,
                                        ::mlir::ValueRange args) {
      [[maybe_unused]] ::mlir::Value x = args.front();
      [[maybe_unused]] ::mlir::Value y = args.size() > 1 ? args[1] : x;
      [[maybe_unused]] ::mlir::Value z = args.back();
      return }] # scalar # [{;
    }
  }];
}

class NN_UnaryOp<string mnemonic, string linear = "", list<Trait> traits = []>
    : NN_ElementwiseOp<mnemonic, linear, "Elementwise", traits> {
  let arguments = (ins NN_Tensor:$input);
}

class NN_BinaryOp<string mnemonic, string linear = "", list<Trait> traits = []>
    : NN_ElementwiseOp<mnemonic, linear, "Elementwise", traits> {
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
}

/// A function of `math`.
class NN_FunctionOp<string mnemonic, string function> : NN_UnaryOp<mnemonic> {
  let domain = "Float";
  let scalar = "s.make<::mlir::math::" # function # "Op>(x)";
}

/// Costs no more than a load: no function such as exp, no division.
class NN_CheapUnaryOp<string mnemonic, string linear = "",
                      list<Trait> traits = []>
    : NN_UnaryOp<mnemonic, linear, [NN_CostsALoad] # traits>;
class NN_CheapBinaryOp<string mnemonic, string linear = "",
                       list<Trait> traits = []>
    : NN_BinaryOp<mnemonic, linear, [NN_CostsALoad] # traits>;

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

def NN_NegOp : NN_CheapUnaryOp<"neg", "0", [NN_Sums]> {
  let scalar = "s.neg(x)";
  let summary = "-x";
}

def NN_AbsOp : NN_CheapUnaryOp<"abs"> {
  let scalar = "s.abs(x)";
  let summary = "|x|";
}

def NN_ExpOp : NN_FunctionOp<"exp", "Exp"> {
  let flops = 10;
  let summary = "e^x";
}

def NN_LogOp : NN_FunctionOp<"log", "Log"> {
  let flops = 10;
  let summary = "natural logarithm";
}

def NN_Exp2Op : NN_FunctionOp<"exp2", "Exp2"> {
  let summary = "2^x, exact for integers";
}

def NN_Log2Op : NN_FunctionOp<"log2", "Log2"> {
  let summary = "logarithm to base 2, exact for powers of 2";
}

def NN_Log10Op : NN_FunctionOp<"log10", "Log10"> {
  let summary = "logarithm to base 10, exact for powers of 10";
}

def NN_Log1pOp : NN_FunctionOp<"log1p", "Log1p"> {
  let summary = "ln(1 + x)";
}

def NN_Expm1Op : NN_FunctionOp<"expm1", "ExpM1"> {
  let summary = "e^x - 1";
}

def NN_SqrtOp : NN_FunctionOp<"sqrt", "Sqrt"> {
  let summary = "square root";
}

def NN_RsqrtOp : NN_UnaryOp<"rsqrt"> {
  let domain = "Float";
  let scalar = "s.div(s.constant(1), s.sqrt(x))";
  let summary = "1 / sqrt(x)";
}

def NN_ReciprocalOp : NN_UnaryOp<"reciprocal"> {
  let domain = "Float";
  let scalar = "s.div(s.constant(1), x)";
  let summary = "1 / x";
}

def NN_SinOp : NN_FunctionOp<"sin", "Sin"> {
  let summary = "sine";
}

def NN_CosOp : NN_FunctionOp<"cos", "Cos"> {
  let summary = "cosine";
}

def NN_TanhOp : NN_FunctionOp<"tanh", "Tanh"> {
  let flops = 10;
  let summary = "hyperbolic tangent";
}

def NN_SigmoidOp : NN_UnaryOp<"sigmoid"> {
  let flops = 10;
  let domain = "Float";
  let scalar = "s.sigmoid(x)";
  let summary = "1 / (1 + e^-x)";
}

def NN_ErfOp : NN_FunctionOp<"erf", "Erf"> {
  let flops = 10;
  let summary = "error function";
}

def NN_ErfcOp : NN_FunctionOp<"erfc", "Erfc"> {
  let flops = 10;
  let summary = "1 - erf(x), exact where that is tiny";
}

def NN_SignOp : NN_UnaryOp<"sign"> {
  let scalar = "s.sign(x)";
  let summary = "-1, 0 or 1";
}

def NN_FloorOp : NN_UnaryOp<"floor"> {
  let scalar = "s.floor(x)";
  let summary = "largest integer not above x";
}

def NN_CeilOp : NN_UnaryOp<"ceil"> {
  let scalar = "s.ceil(x)";
  let summary = "smallest integer not below x";
}

def NN_RoundOp : NN_UnaryOp<"round"> {
  let scalar = "s.round(x)";
  let summary = "nearest integer, ties to even";
}

def NN_LogicalNotOp : NN_CheapUnaryOp<"logical_not"> {
  let domain = "Bool";
  let scalar = "s.bitXor(x, s.constant(1))";
  let summary = "true where x is false (i1)";
}

def NN_ReluOp : NN_UnaryOp<"relu"> {
  let scalar = "s.maximum(x, s.constant(0))";
  let summary = "max(x, 0)";
}

def NN_SiluOp : NN_UnaryOp<"silu"> {
  let flops = 10;
  let domain = "Float";
  let scalar = "s.silu(x)";
  let summary = "x * sigmoid(x)";
}

def NN_GeluOp : NN_UnaryOp<"gelu"> {
  let flops = 10;
  let domain = "Float";
  let scalar = "s.gelu(x, getApproximate() == Approximate::Tanh)";
  let summary = "x * Phi(x), exact (`none`) or by `tanh`";
  let arguments = (ins NN_Tensor:$input, NN_ApproximateAttr:$approximate);
  let assemblyFormat = [{
    $approximate operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_ConvertOp : NN_ElementwiseOp<"convert", "0", "Convert",
                                    [NN_CostsALoad, NN_View]> {
  let flops = 0;
  let scalar = "s.convert(x, getElementTypeOrSelf(getType()))";
  let summary = "changes the element type";
  let description = [{
    Float to integer truncates towards zero; anything to i1 is `x != 0`. It passes
    `reduce` through from integers and to a longer floating-point type;
    what rounds or cuts off each term, and i1, is not linear. With `sums_first`
    nothing passes: terms are summed in the type in which they are.
  }];
  let arguments = (ins NN_Tensor:$input, UnitAttr:$sums_first);
}

//===----------------------------------------------------------------------===//
// Two and three operands
//===----------------------------------------------------------------------===//

def NN_AddOp : NN_CheapBinaryOp<"add", "0 1", [NN_Sums]> {
  let scalar = "s.add(x, y)";
  let summary = "lhs + rhs";
}

def NN_SubOp : NN_CheapBinaryOp<"sub", "0 1", [NN_Sums]> {
  let scalar = "s.sub(x, y)";
  let summary = "lhs - rhs";
}

def NN_MulOp : NN_CheapBinaryOp<"mul", "0 | 1"> {
  let scalar = "s.mul(x, y)";
  let summary = "lhs * rhs";
}

def NN_DivOp : NN_ElementwiseOp<"div", "0", "Div"> {
  let scalar = "s.div(x, y)";
  let summary = "lhs / rhs; on integers it truncates";
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
}

def NN_PowOp : NN_BinaryOp<"pow"> {
  let flops = 10;
  let scalar = "s.power(x, y)";
  let summary = "lhs to the power of rhs";
}

def NN_MaximumOp : NN_CheapBinaryOp<"maximum"> {
  let scalar = "s.maximum(x, y)";
  let summary = "the larger one; NaN wins";
}

def NN_MinimumOp : NN_CheapBinaryOp<"minimum"> {
  let scalar = "s.minimum(x, y)";
  let summary = "the smaller one; NaN wins";
}

def NN_RemainderOp : NN_BinaryOp<"remainder"> {
  let scalar = "s.remainder(x, y)";
  let summary = "lhs - rhs * floor(lhs / rhs), the sign of rhs";
}

def NN_FloorDivideOp : NN_BinaryOp<"floor_divide"> {
  let scalar = "s.floorDivide(x, y)";
  let summary = "floor(lhs / rhs)";
}

def NN_Atan2Op : NN_BinaryOp<"atan2"> {
  let domain = "Float";
  let scalar = "s.make<::mlir::math::Atan2Op>(x, y)";
  let summary = "angle of (rhs, lhs)";
}

def NN_CopysignOp : NN_CheapBinaryOp<"copysign"> {
  let domain = "Float";
  let scalar = "s.make<::mlir::math::CopySignOp>(x, y)";
  let summary = "the size of lhs with the sign of rhs, that of a zero too";
}

def NN_LogicalAndOp : NN_CheapBinaryOp<"logical_and"> {
  let domain = "Integer";
  let scalar = "s.bitAnd(x, y)";
  let summary = "and (i1, or bitwise on integers)";
}

def NN_LogicalOrOp : NN_CheapBinaryOp<"logical_or"> {
  let domain = "Integer";
  let scalar = "s.bitOr(x, y)";
  let summary = "or (i1, or bitwise on integers)";
}

def NN_LogicalXorOp : NN_CheapBinaryOp<"logical_xor"> {
  let domain = "Integer";
  let scalar = "s.bitXor(x, y)";
  let summary = "exclusive or (i1, or bitwise on integers)";
}

def NN_GeluBackwardOp : NN_BinaryOp<"gelu_backward", "0"> {
  let flops = 10;
  let domain = "Float";
  let scalar = "s.geluBackward(x, y, getApproximate() == Approximate::Tanh)";
  let summary = "gradient of gelu: `lhs` is the gradient of the result, `rhs` the input";
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs,
                       NN_ApproximateAttr:$approximate);
  let assemblyFormat = [{
    $approximate operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_SiluBackwardOp : NN_BinaryOp<"silu_backward", "0"> {
  let flops = 10;
  let domain = "Float";
  let scalar = "s.siluBackward(x, y)";
  let summary = "gradient of silu: `lhs` is the gradient of the result, `rhs` the input";
}

def NN_CompareOp
    : NN_ElementwiseOp<"compare", "", "Elementwise", [NN_CostsALoad]> {
  let scalar = "s.compare(getPredicate(), x, y)";
  let summary = "compares by `predicate`: eq, ne, lt, le, gt or ge; gives i1";
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs,
                       NN_PredicateAttr:$predicate);
  let assemblyFormat = [{
    $predicate operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_SelectOp
    : NN_ElementwiseOp<"select", "1 2", "Elementwise", [NN_CostsALoad]> {
  let scalar = "s.select(x, y, z)";
  let summary = "`lhs` where `condition` (i1) holds, else `rhs`";
  let arguments = (ins NN_Tensor:$condition, NN_Tensor:$lhs,
                       NN_Tensor:$rhs);
}

def NN_PhiloxOp : NN_ElementwiseOp<"philox"> {
  // Ten rounds of two multiplications per four lanes.
  let flops = 20;
  let scalar = "s.philox(x, y, z, s.getOrdinal(getOrdinal()))";
  let summary = "the random 32 bits of an element, as i64 in [0, 2^32)";
  let description = [{
    Philox4x32-10. Key: `seed` (low 32 bits first). Counter: (`index` / 4 as 64
    bits, `ordinal`, `step`), low word first; lane: `index` mod 4. `index` is
    the linear index of the element in the *global* tensor, so that a mask is
    the same however the tensor is split.
  }];
  let arguments = (ins TensorOf<[I64]>:$index, 0DTensorOf<[I64]>:$seed,
                       0DTensorOf<[I64]>:$step, I64Attr:$ordinal);
}
