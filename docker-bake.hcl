// All images with their platforms: docker buildx bake [TARGET or GROUP...], or shorter, scripts/build-images.
//
//   environments       PyTorch with one backend:            torch2_10_0_acl, torch2_10_0_openblas, torch2_10_0_x86
//   suites             the suite on each environment:       torch2_10_0_acl_modelzoo, ...
//   modelzoo           one tag for amd64 (x86) and arm64 (acl)
//
// A target has the name of its tag, with "_" instead of "." (target names cannot contain dots).

// The repository of the tags: host/path.
variable "REGISTRY" { default = "modelzoo" }

// pretrained: the published weights (0.85 GB) are part of the image; none: they are downloaded at the first run.
variable "WEIGHTS" { default = "none" }

// Engines besides torch: "onnxruntime openvino", or one of them.
variable "ENGINES" { default = "" }

// The index with the CPU build for x86-64. Empty: the CUDA build of the general index (7 GB; it works without a GPU).
variable "TORCH_INDEX" { default = "https://download.pytorch.org/whl/cpu" }

// wheel (minutes) or source (hours, not supported: PyTorch was never compiled by it), see pytorch_env/README.md.
variable "ROUTE" { default = "wheel" }

// A certificate file for the package index, and other indexes; none of them is stored in an image.
variable "CA" { default = "" }
variable "PIP_INDEX_URL" { default = "" }
variable "PIP_EXTRA_INDEX_URL" { default = "" }

// The commit, for the image's labels.
variable "REVISION" { default = "" }

// Not empty: use the base images of this machine, also where the pins have a digest (see scripts/build-images).
variable "LOCAL_BASES" { default = "" }
function "base" {
  params = [pin]
  result = LOCAL_BASES == "" ? pin : split("@", pin)[0]
}

// The same pins as in pytorch_env/versions.sh; a test checks that they agree. scripts/lock --bases writes the digests of the
// bases. Images of older releases are built from an older commit (docs/containers.md).
variable "VERSIONS" {
  default = [{ torch = "2.10.0", base = "debian:bookworm-slim", lock = "lock-cpu.txt", cuda = "lock.txt" }]
}

group "default" { targets = ["modelzoo"] }
group "current" {
  targets = [
    "torch2_10_0_acl", "torch2_10_0_openblas", "torch2_10_0_acl_modelzoo", "torch2_10_0_openblas_modelzoo",
    "torch2_10_0_x86_modelzoo", "modelzoo",
  ]
}
group "arm64" {
  targets = ["torch2_10_0_acl", "torch2_10_0_openblas", "torch2_10_0_acl_modelzoo", "torch2_10_0_openblas_modelzoo"]
}
group "amd64" { targets = ["torch2_10_0_x86_modelzoo"] }

target "_common" {
  context = "."
  labels  = { "modelzoo-support" = "current" }
  secret  = CA == "" ? [] : ["id=ca,src=${CA}"]
  args = {
    PIP_CERT            = CA == "" ? "" : "/run/secrets/ca.pem"
    PIP_INDEX_URL       = PIP_INDEX_URL
    PIP_EXTRA_INDEX_URL = PIP_EXTRA_INDEX_URL
  }
}

target "environments" {
  inherits = ["_common"]
  name     = "torch${replace(version.torch, ".", "_")}_${backend}"
  matrix = {
    version = VERSIONS
    backend = ["acl", "openblas"]
  }
  dockerfile = backend == "acl" ? "pytorch_env/Dockerfile.torch_acl" : "pytorch_env/Dockerfile.torch_blas"
  platforms  = ["linux/arm64"]
  tags       = ["${REGISTRY}:torch${version.torch}_${backend}"]
  args = {
    BASE_IMAGE = base(version.base)
    LOCK       = version.lock
    ROUTE      = ROUTE
    TORCH      = version.torch
  }
}

target "environments_x86" {
  inherits   = ["_common"]
  name       = "torch${replace(version.torch, ".", "_")}_x86"
  matrix     = { version = VERSIONS }
  dockerfile = "pytorch_env/Dockerfile.torch_x86"
  platforms  = ["linux/amd64"]
  tags       = ["${REGISTRY}:torch${version.torch}_x86"]
  args = {
    BASE_IMAGE  = base(version.base)
    LOCK        = TORCH_INDEX != "" ? version.lock : version.cuda
    TORCH_INDEX = TORCH_INDEX
  }
}

target "_suite" {
  inherits = ["_common"]
  args = {
    WEIGHTS  = WEIGHTS
    REVISION = REVISION
  }
}

target "suites" {
  inherits = ["_suite"]
  name     = "torch${replace(version.torch, ".", "_")}_${backend}_modelzoo"
  matrix = {
    version = VERSIONS
    backend = ["acl", "openblas", "x86"]
  }
  platforms = [backend == "x86" ? "linux/amd64" : "linux/arm64"]
  contexts = {
    "environment-${backend == "x86" ? "amd64" : "arm64"}" = "target:torch${replace(version.torch, ".", "_")}_${backend}"
  }
  tags = ["${REGISTRY}:torch${version.torch}_${backend}_modelzoo"]
  args = {
    TAG        = "torch${version.torch}_${backend}_modelzoo"
    BASE_IMAGE = base(version.base)
    ENGINES    = ENGINES
  }
}

target "modelzoo" {
  inherits  = ["_suite"]
  platforms = ["linux/amd64", "linux/arm64"]
  contexts = {
    environment-amd64 = "target:torch2_10_0_x86"
    environment-arm64 = "target:torch2_10_0_acl"
  }
  tags = ["${REGISTRY}:modelzoo"]
  args = {
    TAG        = "modelzoo"
    BASE_IMAGE = base(VERSIONS[0].base)
    ENGINES    = ENGINES
  }
}
