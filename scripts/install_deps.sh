#!/usr/bin/env bash
# Installs the Debian 12 packages that are missing: what the build needs, and with --tests also what
# tests, sanitizers and lint need. When none is missing, it only asks dpkg: instant, and it needs
# neither the network nor root.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache pkg-config git python3 lld
  # libdnnl-dev only recommends the OpenCL loader that its CMake files ask for.
  libdnnl-dev ocl-icd-opencl-dev
  libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
  libprotobuf-dev protobuf-compiler libgrpc++-dev protobuf-compiler-grpc libssl-dev libucx-dev
  zlib1g-dev
)
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev
  # clang needs its own OpenMP.
  clang clang-format clang-tidy libclang-rt-dev libomp-dev
  # Launchers and namespaces that tests run the program under.
  slurmctld slurmd slurm-client munge openmpi-bin iproute2 util-linux
)
case "$*" in
  "") ;;
  --tests) packages+=("${test_packages[@]}") ;;
  *) echo "usage: install_deps.sh [--tests]" >&2; exit 2 ;;
esac

die() {
  echo "install_deps: $*" >&2
  exit 1
}

command -v dpkg-query >/dev/null 2>&1 ||
  die "needs dpkg (Debian 12); on another system install what stands for: ${packages[*]}"

# dpkg-query exits non-zero when it does not know one of the names; its other lines are still right.
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
  awk '$2 == "installed" { print $1 }') || true
missing=()
for package in "${packages[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

command -v apt-get >/dev/null 2>&1 || die "apt-get not found; install by other means: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 ||
    die "not root and no sudo; as root run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

echo "install_deps: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq || die "apt-get update failed; is a Debian mirror reachable?"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
  die "apt-get could not install: ${missing[*]}"
