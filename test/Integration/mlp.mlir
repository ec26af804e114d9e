// A step written by hand, run by the interpreter and as a Program on one and
// on several ranks, with and without microbatches: the same parameters.

// RUN: mkdir -p %t && %python %S/values.py %t/data.safetensors
// RUN: tandem-interpret %s --data %t/data.safetensors --steps 3 --save %t/expected.safetensors
// RUN: tandem-compile %s -o %t/one.tdm
// RUN: tandem-run %t/one.tdm --print | FileCheck %s --check-prefix=ONE
// RUN: tandem-run %t/one.tdm --data %t/data.safetensors --steps 3 --save %t/one.safetensors
// RUN: %python %S/compare.py %t/one.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh data=2 --micro 2 --print-plan -o %t/two.tdm | FileCheck %s --check-prefix=PLAN
// RUN: tandem-run %t/two.tdm --print | FileCheck %s --check-prefix=TWO
// RUN: tandem-run %t/two.tdm --data %t/data.safetensors --steps 3 --save %t/two.safetensors
// RUN: %python %S/compare.py %t/two.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh data=2,model=2 --plan tensor-parallel --micro 4 -o %t/four.tdm
// RUN: tandem-run %t/four.tdm --data %t/data.safetensors --steps 3 --save %t/four.safetensors
// RUN: %python %S/compare.py %t/four.safetensors %t/expected.safetensors

// A loss that is not a number stops the step before anything is written.
// RUN: %python %S/values.py %t/nan.safetensors nan
// RUN: not tandem-run %t/two.tdm --data %t/nan.safetensors --steps 1 2>&1 | FileCheck %s --check-prefix=NAN
// NAN: tandem-run: error: {{.*}}step 1{{.*}}loss

// The weight is read transposed by the library; the update is written over it,
// after the check of the loss.
// ONE: gemm 'matmul' {{.*}} m 8 n 4 k 16 {{.*}}[1, 16]
// ONE: check_finite
// ONE: launch {{.*}} -> (argument[0]

// PLAN: all-reduce data

// TWO: mesh data=2, 2 ranks, micro 2
// TWO: all_reduce
// TWO: check_finite

module {
  func.func @step(%w: tensor<4x16xf32> {nn.role = #nn.role<parameter>, nn.name = "w"},
                  %lr: tensor<f32> {nn.role = #nn.role<learning_rate>, nn.name = "0"},
                  %x: tensor<8x16xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                  %y: tensor<8x4xf32> {nn.role = #nn.role<input>, nn.name = "y", nn.batch_dim = 0 : i64})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<4x16xf32> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 0 : i64}) {
    %0 = nn.permute %w {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<4x16xf32>) -> tensor<16x4xf32>
    %1 = nn.matmul %x, %0 {nn.pass = #nn.pass<forward>} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %2 = nn.sub %1, %y {nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = nn.mul %2, %2 {nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %4 = nn.sum %3 {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>} : (tensor<8x4xf32>) -> tensor<f32>
    %5 = nn.constant dense<2.0> : tensor<f32> {nn.pass = #nn.pass<backward>} -> tensor<f32>
    %6 = nn.mul %2, %5 {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %7 = nn.permute %6 {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %8 = nn.matmul %7, %x {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %9 = nn.mul %8, %lr {nn.pass = #nn.pass<update>} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %10 = nn.sub %w, %9 {nn.pass = #nn.pass<update>} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    return %4, %10 : tensor<f32>, tensor<4x16xf32>
  }
}
