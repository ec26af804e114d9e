// RUN: tandem-opt %s --tandem-fetch-parameters | FileCheck %s
// RUN: tandem-opt %s --tandem-fetch-parameters -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry step --compare %s

// Each pass fetches a parameter of the host in front of its first reader. The
// backward pass reads the cast that was made. Updates read the parameter itself.
// CHECK-LABEL: @step
// CHECK-SAME: %arg1: tensor<4x4xf32> {nn.role = #nn.role<parameter>}
// CHECK: %[[F:.*]] = nn.from_host %arg1 {nn.id = 6 : i64, nn.pass = #forward}
// CHECK-NEXT: %[[C:.*]] = nn.convert %[[F]]
// CHECK-NEXT: nn.mul %[[F]], %arg0
// CHECK-NEXT: nn.mul {{.*}}, %[[C]]
// CHECK-NEXT: %[[B:.*]] = nn.from_host %arg1 {nn.id = 7 : i64, nn.pass = #backward}
// CHECK-NEXT: nn.mul %{{.*}}, %[[B]]
// CHECK-NEXT: nn.sub %arg1
#backward = #nn.pass<backward>
#forward = #nn.pass<forward>
func.func @step(%x: tensor<4x4xf32> {nn.role = #nn.role<input>}, %w: tensor<4x4xf32> {nn.role = #nn.role<parameter>, spmd.host}, %b: tensor<4x4xbf16> {nn.role = #nn.role<input>}) -> (tensor<4x4xbf16>, tensor<4x4xf32>) {
  %c = nn.convert %w {nn.id = 0 : i64, nn.pass = #forward} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %y = nn.mul %w, %x {nn.id = 1 : i64, nn.pass = #forward} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = nn.convert %w {nn.again, nn.id = 2 : i64, nn.pass = #backward} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %z = nn.mul %b, %d {nn.id = 3 : i64, nn.pass = #backward} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %g = nn.mul %y, %w {nn.id = 4 : i64, nn.pass = #backward} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = nn.sub %w, %g {nn.id = 5 : i64, nn.pass = #nn.pass<update>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z, %u : tensor<4x4xbf16>, tensor<4x4xf32>
}
