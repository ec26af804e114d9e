// RUN: tandem-opt %s --tandem-assign-sections="points=3 sections=w0:0;w1:1;w2:2" | FileCheck %s

#in = #nn.role<input>
#p = #nn.role<parameter>
#f = #nn.pass<forward>
#b = #nn.pass<backward>

// The last section reads w0, too, and the tensor that the first one makes.
func.func @step(%xs: tensor<2x4x4xf64> {nn.role = #in, nn.name = "x"}, %w0: tensor<4x4xf64> {nn.role = #p, nn.name = "w0"}, %w1: tensor<4x4xf64> {nn.role = #p, nn.name = "w1"}, %w2: tensor<8x4xf64> {nn.role = #p, nn.name = "w2"})
    -> (tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss"}, tensor<4x4xf64> {nn.role = #nn.role<gradient>, nn.name = "w0"}, tensor<4x4xf64> {nn.role = #nn.role<gradient>, nn.name = "w1"}, tensor<8x4xf64> {nn.role = #nn.role<gradient>, nn.name = "w2"}) attributes {spmd.iterations = 2 : i64} {
  %x = spmd.enter %xs {nn.pass = #f, spmd.loop = 0 : i64} : tensor<2x4x4xf64> -> tensor<4x4xf64>
  // Each section has its own view of a parameter.
  // CHECK: nn.permute %arg1 {{.*}}spmd.section = 0
  // CHECK: %[[OWN:.*]] = nn.permute %arg1 {{.*}}spmd.section = 2
  %t0 = nn.permute %w0 {nn.pass = #f, spmd.loop = 0 : i64, permutation = array<i64: 1, 0>} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: %[[A:.*]] = nn.matmul {{.*}}spmd.section = 0
  %a = nn.matmul %x, %t0 {nn.pass = #f, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: %[[M:.*]] = nn.matmul %[[A]], %arg2 {{.*}}spmd.section = 1
  %m = nn.matmul %a, %w1 {nn.pass = #f, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // A skip is read where the layer is that reads both.
  // CHECK: nn.cat %[[M]], %[[A]] {{.*}}spmd.section = 2
  %c = nn.cat %m, %a {nn.pass = #f, spmd.loop = 0 : i64, dim = 1 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x8xf64>
  // CHECK: nn.matmul {{.*}}spmd.section = 2
  %y = nn.matmul %c, %w2 {nn.pass = #f, spmd.loop = 0 : i64} : (tensor<4x8xf64>, tensor<8x4xf64>) -> tensor<4x4xf64>
  // CHECK: nn.matmul %{{.*}}, %[[OWN]] {{.*}}spmd.section = 2
  %z = nn.matmul %y, %t0 {nn.pass = #f, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %l = nn.sum %z {dims = array<i64: 0, 1>, nn.pass = #f, spmd.loop = 0 : i64} : (tensor<4x4xf64>) -> tensor<f64>
  %loss = spmd.carry %l {nn.pass = #f, spmd.loop = 0 : i64} : tensor<f64> -> tensor<f64>
  %dz = nn.constant dense<1.0> : tensor<4x4xf64> {nn.pass = #b, spmd.loop = 0 : i64} -> tensor<4x4xf64>
  %ty = nn.permute %y {nn.pass = #b, spmd.loop = 0 : i64, permutation = array<i64: 1, 0>} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: %[[LAST:.*]] = nn.matmul {{.*}}spmd.section = 2
  %dw0b = nn.matmul %ty, %dz {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %dy = nn.matmul %dz, %w0 {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %tc = nn.permute %c {nn.pass = #b, spmd.loop = 0 : i64, permutation = array<i64: 1, 0>} : (tensor<4x8xf64>) -> tensor<8x4xf64>
  %dw2 = nn.matmul %tc, %dy {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<8x4xf64>, tensor<4x4xf64>) -> tensor<8x4xf64>
  %sum2 = spmd.carry %dw2 {nn.pass = #b, spmd.loop = 0 : i64} : tensor<8x4xf64> -> tensor<8x4xf64>
  %t2 = nn.permute %w2 {nn.pass = #b, spmd.loop = 0 : i64, permutation = array<i64: 1, 0>} : (tensor<8x4xf64>) -> tensor<4x8xf64>
  %dc = nn.matmul %dy, %t2 {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x8xf64>) -> tensor<4x8xf64>
  // A part of a gradient is cut off in front of the transfer.
  // CHECK: nn.slice {{.*}}spmd.section = 2 : i64, start = 0
  %dm = nn.slice %dc {nn.pass = #b, spmd.loop = 0 : i64, dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<4x8xf64>) -> tensor<4x4xf64>
  // CHECK: %[[S:.*]] = nn.slice {{.*}}spmd.section = 2 : i64, start = 4
  %da1 = nn.slice %dc {nn.pass = #b, spmd.loop = 0 : i64, dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<4x8xf64>) -> tensor<4x4xf64>
  %ta = nn.permute %a {nn.pass = #b, spmd.loop = 0 : i64, permutation = array<i64: 1, 0>} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  %dw1 = nn.matmul %ta, %dm {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %sum1 = spmd.carry %dw1 {nn.pass = #b, spmd.loop = 0 : i64} : tensor<4x4xf64> -> tensor<4x4xf64>
  %t1 = nn.permute %w1 {nn.pass = #b, spmd.loop = 0 : i64, permutation = array<i64: 1, 0>} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: spmd.carry {{.*}}spmd.section = 1
  // CHECK: %[[DA2:.*]] = nn.matmul {{.*}}spmd.section = 1
  %da2 = nn.matmul %dm, %t1 {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: %[[DA3:.*]] = nn.matmul %{{.*}}, %arg2 {{.*}}spmd.section = 1
  %da3 = nn.matmul %dm, %w1 {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // The two terms of section 1 leave it as one.
  // CHECK: %[[PART:.*]] = nn.add %[[DA2]], %[[DA3]] {{.*}}spmd.section = 1
  // CHECK: nn.add %[[PART]], %[[S]] {{.*}}spmd.section = 0
  %s1 = nn.add %da2, %da1 {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %da = nn.add %s1, %da3 {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %da_t = nn.permute %da {nn.pass = #b, spmd.loop = 0 : i64, permutation = array<i64: 1, 0>} : (tensor<4x4xf64>) -> tensor<4x4xf64>
  // CHECK: %[[FIRST:.*]] = nn.matmul {{.*}}spmd.section = 0
  %dw0a = nn.matmul %da_t, %x {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  // Each section carries its own gradient of w0.
  // CHECK: %[[SUM0:.*]] = spmd.carry %[[FIRST]] {{.*}}spmd.section = 0
  // CHECK: %[[SUM2:.*]] = spmd.carry %[[LAST]] {{.*}}spmd.section = 2
  // CHECK: nn.add %[[SUM0]], %[[SUM2]] {{{.*}}nn.pass = #{{[a-z]+}}, spmd.section = 0
  %dw0 = nn.add %dw0a, %dw0b {nn.pass = #b, spmd.loop = 0 : i64} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %sum0 = spmd.carry %dw0 {nn.pass = #b, spmd.loop = 0 : i64} : tensor<4x4xf64> -> tensor<4x4xf64>
  return %loss, %sum0, %sum1, %sum2 : tensor<f64>, tensor<4x4xf64>, tensor<4x4xf64>, tensor<8x4xf64>
}
