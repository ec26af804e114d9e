"""lit configuration: one test per pass, mirroring lib/."""

import os

import lit.formats

config.name = "tandem"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.tandem_binary_dir, "test")
config.excludes = ["unit", "CMakeLists.txt"]

path = [
    os.path.join(config.tandem_binary_dir, "bin"),
    config.llvm_tools_dir,
    os.environ.get("PATH", ""),
]
config.environment["PATH"] = os.path.pathsep.join(path)
# Where kernels are kept, and which mistake is planted (scripts/mutants).
config.environment["TANDEM_CACHE_DIR"] = os.environ.get(
    "TANDEM_TEST_CACHE_DIR", os.path.join(config.tandem_binary_dir, "test-cache")
)
for name in ("TANDEM_MUTANT", "TANDEM_MUTANT_LOG"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# The package as it was built: sources with the compiled module.
config.environment["PYTHONPATH"] = os.path.join(config.tandem_binary_dir, "python")
# Tests of passes hold a line per operator, without locations; `%opt` is the tool as users call it.
TOOL = r"(?<![-/.\w])tandem-opt(?![-.\w])"
config.substitutions.append((TOOL, "tandem-opt --mlir-print-debuginfo=false --width=0"))
config.substitutions.append(("%opt", "tandem-opt"))
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%source", config.tandem_source_dir))
# The emulated GPU is in every build that has the CUDA device.
emulator = os.path.join(config.tandem_binary_dir, "emulator")
config.substitutions.append(("%emulator", emulator))
if os.path.exists(os.path.join(emulator, "libcuda.so.1")):
    config.available_features.add("cuda")
