// Products of bf16 that give f32: what they are accumulated in is not rounded,
// in the interpreter, in a Program, and where the sum is split.

// RUN: mkdir -p %t && %python %S/wider_product.py %t/data.safetensors
// RUN: tandem-interpret %s --data %t/data.safetensors --steps 2 --save %t/expected.safetensors
// RUN: tandem-compile %s -o %t/one.tdm
// RUN: tandem-run %t/one.tdm --print | FileCheck %s
// RUN: tandem-run %t/one.tdm --data %t/data.safetensors --steps 2 --save %t/one.safetensors
// RUN: %python %S/compare.py %t/one.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh data=2 --micro 2 -o %t/two.tdm
// RUN: tandem-run %t/two.tdm --data %t/data.safetensors --steps 2 --save %t/two.safetensors
// RUN: %python %S/compare.py %t/two.safetensors %t/expected.safetensors

// CHECK: gemm {{.*}}bf16{{.*}}f32

func.func @step(
    %x: tensor<8x4xbf16> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w"})
    -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
        tensor<4x4xf32> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 1 : i64}) {
  %short = nn.convert %w {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %y = nn.matmul %x, %short {nn.pass = #nn.pass<forward>} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xf32>
  %squares = nn.mul %y, %y {nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %loss = nn.sum %squares {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>) -> tensor<f32>
  %t = nn.permute %x {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<8x4xbf16>) -> tensor<4x8xbf16>
  %dy = nn.convert %y {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %g = nn.matmul %t, %dy {nn.pass = #nn.pass<backward>} : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>
  %n = nn.sub %w, %g {nn.pass = #nn.pass<update>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %loss, %n : tensor<f32>, tensor<4x4xf32>
}
