// RUN: not tandem-interpret %s --entry index 2>&1 | FileCheck %s --check-prefix=INDEX
// RUN: not tandem-interpret %s --entry zero 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not tandem-interpret %s --entry either 2>&1 | FileCheck %s --check-prefix=EITHER
// RUN: not tandem-interpret %s --entry diverge 2>&1 | FileCheck %s --check-prefix=DIVERGE
// RUN: not tandem-interpret %s --entry early 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not tandem-interpret %s --entry nowhere 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not tandem-interpret %s --entry loss 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: not tandem-interpret %s --entry untrue 2>&1 | FileCheck %s --check-prefix=UNTRUE
// RUN: not tandem-interpret %s --entry index --data %t.none 2>&1 | FileCheck %s --check-prefix=NOFILE
// RUN: not tandem-interpret %s --entry index --data %s 2>&1 | FileCheck %s --check-prefix=NODATA
// RUN: not tandem-interpret %s --entry index --data= 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: --data is '', expected the path of a file

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // INDEX: errors.mlir:[[#@LINE+3]]:{{.*}} error: 'nn.embedding' op reads index 9, expected one in [0, 8)
  func.func @index(%w: tensor<8x2xf32>) -> tensor<1x2xf32> {
    %i = nn.constant dense<9> : tensor<1xi64> -> tensor<1xi64>
    %0 = nn.embedding %w, %i : (tensor<8x2xf32>, tensor<1xi64>) -> tensor<1x2xf32>
    return %0 : tensor<1x2xf32>
  }

  // ZERO: error: 'nn.div' op divides an integer by zero
  func.func @zero(%x: tensor<4xi64>) -> tensor<4xi64> {
    %0 = nn.constant dense<0> : tensor<i64> -> tensor<i64>
    %1 = nn.div %x, %0 : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
    return %1 : tensor<4xi64>
  }

  // Not equal: nan, which equals nan, is.
  // EITHER: errors.mlir:[[#@LINE+4]]:{{.*}} error: 'nn.either' op has other values in operand 2 than in operand 0, expected the same ones
  func.func @either() -> tensor<2xf32> {
    %0 = nn.constant dense<[1.0, 0x7FC00000]> : tensor<2xf32> -> tensor<2xf32>
    %1 = nn.constant dense<[1.5, 0x7FC00000]> : tensor<2xf32> -> tensor<2xf32>
    %2 = nn.either %0, %0, %1 : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %2 : tensor<2xf32>
  }

  // A coordinate differs between ranks, but the result claims to be full.
  // DIVERGE: error: result 0, 'result/0', is full on axis 'data', but its points hold different values
  func.func @diverge() -> (tensor<i64> {spmd.layout = tensor<i64>}) {
    %0 = spmd.coordinate "data" : tensor<i64>
    return %0 : tensor<i64>
  }

  // EARLY: errors.mlir:[[#@LINE+7]]:{{.*}} error: reads a value of a step of stage 0 on compute, but no awaited event says that it is done
  func.func @early(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0, %e0 = sched.step on compute stage 0 strand 0 {
      %1 = nn.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      sched.yield %1 : tensor<4xf32>
    } : tensor<4xf32>
    %2, %e1 = sched.step on comm stage 0 strand 0 {
      %1 = spmd.all_reduce %0 over ["data"] : tensor<4xf32> -> tensor<4xf32>
      sched.yield %1 : tensor<4xf32>
    } : tensor<4xf32>
    return %2 : tensor<4xf32>
  }

  // LOSS: error: step 0: 'loss/loss' is {{-?nan|-?inf}}, expected a finite value
  func.func @loss() -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"}) {
    %0 = nn.constant dense<-1.0> : tensor<f32> -> tensor<f32>
    %1 = nn.log %0 : (tensor<f32>) -> tensor<f32>
    return %1 : tensor<f32>
  }

  // UNTRUE: error: step 0: check/a.py:3: no label
  func.func @untrue() -> (tensor<i1> {nn.role = #nn.role<check>, nn.name = "a.py:3: no label"}) {
    %0 = nn.constant dense<false> : tensor<i1> -> tensor<i1>
    return %0 : tensor<i1>
  }
}
// NOWHERE: error: has no function 'nowhere'
// NOFILE: error: '{{.*}}.none': {{[Nn]}}o such file or directory
// NODATA: error: '{{.*}}errors.mlir': is no safetensors file: it is shorter than its header
