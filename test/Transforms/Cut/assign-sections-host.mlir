// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w1:1" | FileCheck %s
// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w1:1" -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry step --compare %s

// A parameter on the host is fetched in its own section, by each pass. The last operator has the
// weight of the first one: it reads in both passes what the forward pass has sent to its section.
#in = #nn.role<input>
#p = #nn.role<parameter>
#f = #nn.pass<forward>
#b = #nn.pass<backward>
!t = tensor<4x4xf64>
func.func @step(%x: !t {nn.role = #in, nn.name = "x"}, %w0: !t {nn.role = #p, nn.name = "w0"}, %w1: !t {nn.role = #p, nn.name = "w1"})
    -> (!t {nn.role = #nn.role<output>, nn.name = "y"}, !t {nn.role = #nn.role<gradient>, nn.name = "w0"}, !t {nn.role = #nn.role<gradient>, nn.name = "w1"}) {
  // CHECK: %[[F0:.*]] = nn.from_host %arg1 {{.*}}spmd.section = 0
  %f0 = nn.from_host %w0 {nn.pass = #f} : (!t) -> !t
  // CHECK: nn.matmul %arg0, %[[F0]] {{.*}}spmd.section = 0
  %h = nn.matmul %x, %f0 {nn.pass = #f} : (!t, !t) -> !t
  // CHECK: %[[F1:.*]] = nn.from_host %arg2 {{.*}}spmd.section = 1
  %f1 = nn.from_host %w1 {nn.pass = #f} : (!t) -> !t
  // CHECK: nn.matmul %{{.*}}, %[[F1]] {{.*}}spmd.section = 1
  %m = nn.matmul %h, %f1 {nn.pass = #f} : (!t, !t) -> !t
  // CHECK: nn.matmul %{{.*}}, %[[F0]] {{.*}}spmd.section = 1
  %y = nn.matmul %m, %f0 {nn.pass = #f} : (!t, !t) -> !t
  // CHECK: %[[B0:.*]] = nn.from_host %arg1 {{.*}}#backward{{.*}}spmd.section = 0
  %b0 = nn.from_host %w0 {nn.pass = #b} : (!t) -> !t
  // CHECK: nn.matmul %{{.*}}, %[[F0]] {{.*}}spmd.section = 1
  %dm = nn.matmul %y, %b0 {nn.pass = #b} : (!t, !t) -> !t
  // CHECK: %[[B1:.*]] = nn.from_host %arg2 {{.*}}#backward{{.*}}spmd.section = 1
  %b1 = nn.from_host %w1 {nn.pass = #b} : (!t) -> !t
  // What reads the parameter is in its section, whoever reads the result.
  // CHECK: nn.matmul %{{.*}}, %[[B1]] {{.*}}spmd.section = 1
  %dh = nn.matmul %dm, %b1 {nn.pass = #b} : (!t, !t) -> !t
  // CHECK: nn.matmul %{{.*}} {{.*}}spmd.section = 1
  %g1 = nn.matmul %h, %dm {nn.pass = #b} : (!t, !t) -> !t
  // CHECK: nn.matmul %{{.*}}, %[[B0]] {{.*}}spmd.section = 0
  %dx = nn.matmul %dh, %b0 {nn.pass = #b} : (!t, !t) -> !t
  // CHECK: nn.add {{.*}}spmd.section = 0
  %g0 = nn.add %dx, %dh {nn.pass = #b} : (!t, !t) -> !t
  return %y, %g0, %g1 : !t, !t, !t
}
