// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w1:1" | FileCheck %s
// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=w0:1;w1:0" | FileCheck %s --check-prefix=BACK
// RUN: tandem-opt %s --tandem-assign-sections="points=1 sections=w1:0" | FileCheck %s --check-prefix=ONE

// Two layers, with a skip connection, a norm over both gradients, and a state.
// CHECK: module attributes {spmd.pipe = "pipe", spmd.sections = array<i64: 0, 1>}
// BACK: spmd.sections = array<i64: 1, 0>
// ONE: spmd.sections = array<i64: 0>
#in = #nn.role<input>
#p = #nn.role<parameter>
#f = #nn.pass<forward>
#b = #nn.pass<backward>
#u = #nn.pass<update>
// CHECK-DAG: nn.name = "x", nn.role = #nn.role<input>}
// CHECK-DAG: nn.name = "w0", nn.role = #nn.role<parameter>, spmd.section = 0
// CHECK-DAG: nn.name = "w1", nn.role = #nn.role<parameter>, spmd.section = 1
// CHECK-DAG: nn.of = "w0", nn.role = #nn.role<state>, spmd.section = 0
// ONE: nn.name = "w0"{{[^}]*}}spmd.section = 0
func.func @step(%x: tensor<4x4xf64> {nn.role = #in, nn.name = "x"}, %w0: tensor<4x4xf64> {nn.role = #p, nn.name = "w0"}, %w1: tensor<4x4xf64> {nn.role = #p, nn.name = "w1"}, %m: tensor<4x4xf64> {nn.role = #nn.role<state>, nn.name = "m", nn.of = "w0"})
    -> (tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss"}, tensor<4x4xf64> {nn.role = #p, nn.name = "w0", nn.updates = 1 : i64}, tensor<4x4xf64> {nn.role = #p, nn.name = "w1", nn.updates = 2 : i64}, tensor<4x4xf64> {nn.role = #nn.role<state>, nn.name = "m", nn.updates = 3 : i64}) {
  // A forward operator is in the last section that it reads of.
  // CHECK: nn.matmul %arg0, %arg1 {{.*}}spmd.section = 0
  %h = nn.matmul %x, %w0 {nn.pass = #f} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.exp {{.*}}spmd.section = 0
  %e = nn.exp %h {nn.pass = #f} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.matmul {{.*}}spmd.section = 1
  %y = nn.matmul %e, %w1 {nn.pass = #f} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.add {{.*}}spmd.section = 1
  %s = nn.add %y, %e {nn.pass = #f} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.sum {{.*}}spmd.section = 1
  %loss = nn.sum %s {dims = array<i64: 0, 1>, nn.pass = #f} : (tensor<4x4xf64>) -> tensor<f64>
  // What depends on no section is in none.
  // CHECK: nn.constant {{.*}}{nn.pass = #{{[a-z]+}}}
  %ds = nn.constant dense<1.0> : tensor<4x4xf64> {nn.pass = #b} -> tensor<4x4xf64>
  // CHECK: nn.permute %arg2 {{.*}}spmd.section = 1
  %t1 = nn.permute %w1 {nn.pass = #b, permutation = array<i64: 1, 0>} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.matmul {{.*}}spmd.section = 1
  %de1 = nn.matmul %ds, %t1 {nn.pass = #b} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.matmul {{.*}}spmd.section = 1
  %de2 = nn.matmul %de1, %t1 {nn.pass = #b} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // The gradient of a parameter is in its section, whatever it reads.
  // CHECK: nn.permute %{{.*}}spmd.section = 1
  %te = nn.permute %e {nn.pass = #b, permutation = array<i64: 1, 0>} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.matmul {{.*}}spmd.section = 1
  %dw1 = nn.matmul %te, %ds {nn.pass = #b} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // A sum of gradients of one section leaves it as one tensor.
  // CHECK: nn.add {{.*}}spmd.section = 1
  %de = nn.add %de1, %de2 {nn.pass = #b} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // What reads a kept value is where it was made.
  // CHECK: nn.mul {{.*}}spmd.section = 0
  %dh = nn.mul %de, %e {nn.pass = #b} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.permute %arg0 {nn.pass
  %tx = nn.permute %x {nn.pass = #b, permutation = array<i64: 1, 0>} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.matmul {{.*}}spmd.section = 0
  %dw0 = nn.matmul %tx, %dh {nn.pass = #b} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // A norm over gradients of several sections is in none.
  // CHECK: nn.sum {{.*}}spmd.section = 0
  %q0 = nn.sum %dw0 {dims = array<i64: 0, 1>, nn.pass = #u} : (tensor<4x4xf64>) -> tensor<f64>
  // CHECK: nn.sum {{.*}}spmd.section = 1
  %q1 = nn.sum %dw1 {dims = array<i64: 0, 1>, nn.pass = #u} : (tensor<4x4xf64>) -> tensor<f64>
  // CHECK: nn.add {{.*}}{nn.pass = #{{[a-z]+}}}
  %n = nn.add %q0, %q1 {nn.pass = #u} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  // CHECK: nn.exp {{.*}}{nn.pass = #{{[a-z]+}}}
  %c = nn.exp %n {nn.pass = #u} : (tensor<f64>) -> tensor<f64>
  // CHECK: nn.mul {{.*}}spmd.section = 0
  %u0 = nn.mul %dw0, %c {nn.pass = #u} : (tensor<4x4xf64>, tensor<f64>) -> tensor<4x4xf64>
  // CHECK: nn.mul {{.*}}spmd.section = 1
  %u1 = nn.mul %dw1, %c {nn.pass = #u} : (tensor<4x4xf64>, tensor<f64>) -> tensor<4x4xf64>
  // CHECK: nn.add {{.*}}spmd.section = 0
  %m1 = nn.add %m, %u0 {nn.pass = #u} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.sub {{.*}}spmd.section = 0
  %n0 = nn.sub %w0, %m1 {nn.pass = #u} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.sub {{.*}}spmd.section = 1
  %n1 = nn.sub %w1, %u1 {nn.pass = #u} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  return %loss, %n0, %n1, %m1 : tensor<f64>, tensor<4x4xf64>, tensor<4x4xf64>, tensor<4x4xf64>
}
