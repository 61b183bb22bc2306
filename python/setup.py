# SPDX-License-Identifier: MIT
"""The part of the build that pyproject.toml cannot say: where libdlbuf is.

The library's sources are compiled into the extension. In the source tree they
are one folder up; an sdist has a copy of them in libdlbuf/.
"""

import ast
import glob
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time

import setuptools
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(HERE)
COPY = "libdlbuf"
ROOT = COPY if os.path.isdir(COPY) else ".."

# The buffer protocol is in the stable ABI since 3.11. An interpreter without a
# GIL has another layout of objects and no stable ABI of ours. Python 3.10 and each
# such interpreter need a build of their own.
LIMITED_API = "0x030b0000"
STABLE_ABI = sys.version_info >= (3, 11) and \
    not sysconfig.get_config_var("Py_GIL_DISABLED")

# DLBUF_SYSTEM=1: link the libdlbuf.so that pkg-config finds, instead of a copy.
SYSTEM = os.environ.get("DLBUF_SYSTEM", "0") not in ("", "0")

# DLBUF_STRICT=1: each backend and each kernel is built, or the build fails.
STRICT = os.environ.get("DLBUF_STRICT", "0") not in ("", "0")

# SPDX's form of a licence is in setuptools since 77; Debian 12 has 66.
LICENSE = "license_expression" if int(setuptools.__version__.split(".")[0]) >= 77 \
    else "license"


def version():
    with open(os.path.join(ROOT, "include/dlbuf/base.h")) as f:
        text = f.read()
    return ".".join(
        re.search(rf"define DLBUF_VERSION_{part} (\d+)", text)[1]
        for part in ("MAJOR", "MINOR", "PATCH"))


def absent(reason):
    """A part is not built."""
    if STRICT:
        sys.exit(f"DLBUF_STRICT: {reason}")
    print(f"dlbuf: {reason}", file=sys.stderr)


def readme():
    """README.md for an index of packages, where relative links lead nowhere: the name
    of the file in the tree replaces the link."""
    def name(link):
        path = os.path.normpath(os.path.join("python", link[1].partition("#")[0]))
        return f"`{path}`"

    with open("README.md", encoding="utf-8") as f:
        return re.sub(r"\[[^]]+\]\((?!https?:|#)([^)\s]+)\)", name, f.read())


def copy_library(folder):
    """The files of the tree that an extension is built from, and its licence."""
    patterns = ["Kconfig", "LICENSE", "include/dlbuf/*.h",
                "include/dlbuf/interop/shared.h",
                "include/dlbuf/interop/v4l2.h", "lib/stubs",
                "lib/libdlbuf.map", "lib/*/*.[ch]",
                "lib/backends/*/*.[ch]", "lib/backends/*/*.comp",
                "lib/backends/cuda/*.cu", "lib/backends/cuda/ptx",
                "lib/backends/levelzero/*.cl", "lib/backends/levelzero/spirv",
                "udmabuf/*.[ch]"]
    for pattern in patterns:
        for f in glob.glob(os.path.join(ROOT, pattern)):
            to = os.path.join(folder, os.path.relpath(f, ROOT))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copyfile(f, to)


def signature(function):
    """As __text_signature__ has it: without types, and self is $self."""
    args = function.args
    for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs,
                args.vararg or args.args[:0]]:
        if arg:
            arg.annotation = None
    text = re.sub(r"^(self|cls)\b", lambda m: "$type" if m[1] == "cls" else
                  "$self", ast.unparse(args))
    if text[:1] == "$" and not args.posonlyargs:
        text = re.sub(r"^\$\w+", r"\g<0>, /", text)
    return f"{function.name}({text})\n--\n\n"


def documentation(stub):
    """The stub's docstrings for C: DOC_from_fd, DOC_Tensor_acquire. The stub is
    their only source, and that of the signatures that Python reports."""
    def entries(nodes, prefix):
        for node in nodes:
            doc = isinstance(node, (ast.ClassDef, ast.FunctionDef)) and \
                ast.get_docstring(node)
            if not doc:
                continue
            if isinstance(node, ast.ClassDef):
                yield from entries(node.body, f"{node.name}_")
                for new in node.body:
                    if getattr(new, "name", "") == "__new__":
                        del new.args.args[0]
                        doc = node.name + signature(new)[7:] + doc
            elif not any(getattr(d, "id", "") == "property"
                         for d in node.decorator_list):
                doc = signature(node) + doc
            yield f"#define DOC_{prefix}{node.name} {json.dumps(doc)}\n"

    with open(stub, encoding="utf-8") as f:
        return "".join(entries(ast.parse(f.read()).body, ""))


class BuildExt(build_ext):
    """Configures the library: everything on, except parts without their headers."""

    def finalize_options(self):
        """Never takes the extension of an earlier build, which may be of the
        other DLBUF_SYSTEM, of other CFLAGS or of other headers."""
        super().finalize_options()
        self.force = True

    def can_build(self, text, flags=()):
        """Whether the compiler makes a shared object of this text."""
        with tempfile.TemporaryDirectory() as tmp:
            source = os.path.join(tmp, "probe.c")
            with open(source, "w") as f:
                f.write(text)
            try:
                objects = self.compiler.compile([source], tmp,
                                                extra_postargs=list(flags))
                self.compiler.link_shared_object(
                    objects, os.path.join(tmp, "probe.so"),
                    extra_postargs=list(flags))
            except Exception:  # each compiler class has its own
                return False
        return True

    def use_system(self, ext):
        """Compiles and links with the library that is installed."""
        def flags(option):
            out = subprocess.run(
                [os.environ.get("PKG_CONFIG", "pkg-config"), option,
                 f"dlbuf >= {version()}"], stdout=subprocess.PIPE, text=True)
            if out.returncode:
                sys.exit(f"DLBUF_SYSTEM: there is no libdlbuf {version()} or "
                         "newer that pkg-config finds")
            return shlex.split(out.stdout)

        ext.define_macros.append(("DLBUF_SYSTEM", "1"))
        ext.include_dirs.append(os.path.join(ROOT, "lib"))
        ext.extra_compile_args += flags("--cflags")
        ext.extra_link_args += flags("--libs")

    def build_extensions(self):
        folder = os.path.join(self.build_temp, "doc")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "_doc.h"), "w") as f:
            f.write(documentation("dlbuf/_dlbuf.pyi"))
        self.extensions[0].include_dirs.append(folder)
        if SYSTEM:
            self.use_system(self.extensions[0])
        else:
            self.use_copy(self.extensions[0])
        # Python's own flags ask for debug information, which nobody has asked
        # for and which is three quarters of a wheel.
        if "-g" not in os.environ.get("CFLAGS", ""):
            self.extensions[0].extra_compile_args.append("-g0")
            self.extensions[0].extra_link_args.append("-Wl,--strip-debug")
        # A twentieth of what a call costs; who says something of it in CFLAGS
        # has said it.
        if "lto" not in os.environ.get("CFLAGS", "") and self.can_build(
                "int probe;\n", ["-flto"]):
            self.extensions[0].extra_compile_args.append("-flto")
            self.extensions[0].extra_link_args.append("-flto")
        super().build_extensions()

    def shader(self, copy):
        """The library's part that a compiler of shaders is needed for."""
        folder = os.path.join(copy, "lib/backends/vulkan")
        try:
            subprocess.run([os.environ.get("GLSLANG", "glslangValidator"), "-V",
                            "--quiet", "-g0", "-Os", "--target-env", "vulkan1.1",
                            "--vn", "prepare_spv", "-o", "prepare.spv.h",
                            "prepare.comp"], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            absent("there is no glslangValidator: Vulkan prepares no frames")
            os.remove(os.path.join(folder, "prepare.c"))

    def kernels(self, copy):
        """The same, and clang."""
        for name, script, header, what in (
                ("cuda", "ptx", "prepare.ptx.h", "clang that makes PTX"),
                ("levelzero", "spirv", "prepare.spirv.h", "clang with llvm-spirv")):
            folder = os.path.join(copy, "lib/backends", name)
            try:
                with open(os.path.join(folder, header), "w") as f:
                    subprocess.run(["sh", os.path.join(folder, script)], stdout=f,
                                   check=True, stderr=subprocess.DEVNULL)
            except subprocess.CalledProcessError:
                absent(f"there is no {what}: {name} prepares no frames")
                os.remove(os.path.join(folder, "prepare.c"))

    def use_copy(self, ext):
        """Compiles the library's sources into the extension."""
        with open(os.path.join(ROOT, "Kconfig")) as f:
            symbols = re.findall(r"^config (BACKEND|EXPORTER)_(\w+)$",
                                 f.read(), re.M)
        generated = os.path.abspath(os.path.join(self.build_temp, "include"))
        os.makedirs(generated, exist_ok=True)
        files = {"autoconf.h": "#define CONFIG_FORMATS_ALL 1\n",
                 "backends.h": "", "exporters.h": ""}
        # Compiled from a copy, so that objects lie in the build's folder too.
        copy = os.path.join(self.build_temp, COPY)
        shutil.rmtree(copy, ignore_errors=True)
        copy_library(copy)
        ext.sources += sorted(
            f for f in glob.glob(os.path.join(copy, "lib/*/*.c"))
            if not f.endswith("absent.c") and "/bridge/" not in f)
        ext.include_dirs += [copy, os.path.join(copy, "include"),
                             os.path.join(copy, "lib")]
        off = []
        self.shader(copy)
        self.kernels(copy)
        files["autoconf.h"] += "".join(
            f"#define CONFIG_PREPARE_{name} 1\n" for name in ("DEVICE", "QUEUE"))
        for kind, symbol in symbols:
            name = symbol.lower()
            header = os.path.join(copy, "lib/backends", name, "api.h")
            on = not os.path.exists(header) or self.can_build(
                f'#define _GNU_SOURCE\n#include "{os.path.abspath(header)}"\n',
                [f"-I{copy}/include"])
            if on:
                files["autoconf.h"] += f"#define CONFIG_{kind}_{symbol} 1\n"
                if os.path.exists(os.path.join(os.path.dirname(header), "prepare.c")):
                    files["autoconf.h"] += f"#define CONFIG_PREPARE_{symbol} 1\n"
            else:
                absent(f"there are no headers of {name}: built without")
            files[f"{kind.lower()}s.h"] += (
                f"{kind}({name})\n" if on else f"{kind}_OFF({name})\n")
            sources = sorted(glob.glob(
                os.path.join(copy, "lib/backends", name, "*.c") if kind == "BACKEND"
                else os.path.join(copy, "udmabuf", f"{name}.c")))
            if on:
                ext.sources += sources
            else:
                off += sources
            if name == "vulkan":
                ext.sources += sorted(
                    f for f in glob.glob(os.path.join(copy, "lib/bridge/*.c"))
                    if on != (os.path.basename(f) == "absent.c"))
        folder = os.path.join(generated, "generated")
        os.makedirs(folder, exist_ok=True)
        for name, text in files.items():
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        stubs = os.path.join(copy, "lib/stubs")
        with open(stubs + ".c", "w") as f:
            subprocess.run(["sh", stubs, os.path.join(copy, "lib/libdlbuf.map"),
                            *off], stdout=f, check=True)
        ext.sources.append(stubs + ".c")
        ext.include_dirs.append(generated)
        ext.extra_compile_args += [
            "-include", os.path.join(generated, "generated/autoconf.h")]


class Sdist(sdist):
    """With a copy of the library's sources. The same bytes in every folder."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        copy_library(os.path.join(base_dir, COPY))

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, **_):
        """setuptools' own archives have the files' times, modes and owners."""
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def plain(info):
            info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            info.mtime, info.uid, info.gid, info.uname, info.gname = epoch, 0, 0, "", ""
            return info

        name = f"{base_name}.tar.gz"
        with open(name, "wb") as f, \
                gzip.GzipFile("", "wb", fileobj=f, mtime=epoch) as z, \
                tarfile.open(fileobj=z, mode="w") as tar:
            tar.add(base_dir, filter=plain)
        return name


extension = Extension(
    "dlbuf._dlbuf",
    sources=sorted(glob.glob("src/*.c")),
    define_macros=[("_GNU_SOURCE", "1"), ("_FILE_OFFSET_BITS", "64"),
                   ("_TIME_BITS", "64"),
                   *([("Py_LIMITED_API", LIMITED_API)] if STABLE_ABI else [])],
    extra_compile_args=["-std=gnu11", "-fvisibility=hidden", "-Wall",
                        "-Wextra", "-Wno-missing-field-initializers",
                        "-ffunction-sections", "-fdata-sections"],
    # Only Python's entry is visible, so that a libdlbuf.so of the same
    # process and this copy do not meet.
    extra_link_args=["-Wl,--gc-sections", "-Wl,-z,relro,-z,now",
                     "-Wl,--version-script,src/_dlbuf.map"],
    libraries=["dl", "pthread"],
    py_limited_api=STABLE_ABI,
)

setup(
    version=version(),
    long_description=readme(),
    long_description_content_type="text/markdown",
    license_files=["LICENSE"],
    ext_modules=[extension],
    cmdclass={"build_ext": BuildExt, "sdist": Sdist},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE_ABI else {},
    **{LICENSE: "MIT"},
)
