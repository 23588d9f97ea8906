# Windlass: `make demo` shows the main job, `make test` is what CI runs. Each first installs what is missing.

CARGO ?= cargo
PACKAGES := clang-19 clang-format-19 libclang1-19 libelf-dev zlib1g-dev pkg-config gcc make \
	iproute2 util-linux nftables nginx-light curl iperf3 nghttp2-client tcpdump parallel libclang-rt-19-dev
# for the virtual machine; only `make vm-test` installs these
VM_PACKAGES := qemu-system-x86 busybox-static cpio binutils dash
# for the lines of core/box that tests reach; only `make coverage` installs these
COVERAGE_PACKAGES := llvm-19
# for the comparison with ns-3; only `make bench-ns3` installs these
NS3_PACKAGES := g++ libns3-dev
# ... and with environments of ns3-gym
NS3GYM_PACKAGES := libzmq3-dev libprotobuf-dev protobuf-compiler
NS3_LIBS := applications internet point-to-point nix-vector-routing traffic-control network core
# for libelf, which is built from its source, and for the package; only `make package`, `image` and `test-package` install these
PACKAGE_PACKAGES := autoconf automake libtool autopoint flex bison gawk binutils dpkg-dev
IMAGE_PACKAGES := umoci
# for etcd, which `windlass fleet` works with; only `make test-fleet` installs it
FLEET_PACKAGES := etcd-server
TEST_PACKAGE_PACKAGES := debootstrap lintian bpftool libcap2-bin
# for the pages of `windlass web`; only `make test-web` installs these, and the packages of tests/web/package.json
WEB_PACKAGES := chromium fonts-dejavu-core $(shell command -v npm >/dev/null || echo nodejs npm)
C_FILES := $(shell find core bpf crates tests -name '*.[ch]' -not -path '*/target/*')
CLANG_FORMAT := clang-format-19

.PHONY: wheel test-python demo test test-long test-web test-package test-fleet package image vm-test deny miri bench bench-ns3 bench-ns3gym fuzz coverage fmt lint setup help

help:
	@echo "make demo     build, then show the main job (about a minute)"
	@echo "make test     everything CI runs"
	@echo "make test-long  that, and what is slow and rarely fails: all kernels, longer walks, links as emulated, known faults"
	@echo "make test-web   the pages of windlass web in Debian's Chromium"
	@echo "make vm-test  tests in virtual machines with other kernels (KERNELS); test has Linux 6.1's verifier where qemu is installed"
	@echo "make package  the Debian package, and what is in it (docs/install.md)"
	@echo "make image    an OCI image of that, made without a daemon"
	@echo "make test-package  install, run, upgrade under load, remove and purge it on a fresh Debian; run the image"
	@echo "make test-fleet  three agents and a real etcd, which it installs; test-long does so where etcd is installed"
	@echo "make wheel    the Python package (docs/python.md)"
	@echo "make test-python  install that into a clean virtual environment, and run its tests, examples and notebook"
	@echo "make miri     unsafe Rust that calls no C, interpreted"
	@echo "make deny     licences, sources and known faults of the packages of the build (deny.toml)"
	@echo "make bench    cost of the datapath and of groups, isolation, speed of the simulator, how exact the testbed is"
	@echo "make bench-ns3  speed of the simulator beside ns-3 (some ten minutes)"
	@echo "make bench-ns3gym  environments for learning beside those of ns3-gym, of which NS3GYM names a clone"
	@echo "make fuzz     search for input that breaks the core, or the programs (FUZZ_SECONDS for each target)"
	@echo "make coverage   lines of core/box that tests and the inputs of fuzz/corpus/boxed reach, and those that they do not"
	@echo "make fmt      format all sources"
	@echo "make lint     formatting and lints, as CI checks them"

# dpkg-query comes first, so that a machine that has everything is not touched and needs no network.
setup:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust with rustup"; exit 2; }
	@$(CARGO) --version >/dev/null || { echo "rust-toolchain.toml pins the version: rustup toolchain install"; exit 2; }
	@missing=""; for p in $(PACKAGES); do \
		dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q "install ok installed" || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
		echo "installing:$$missing"; \
		if [ "$$(id -u)" != 0 ]; then echo "run as root, or: sudo apt-get install$$missing"; exit 2; fi; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi

demo: setup
	$(CARGO) build --release -p windlass
	target/release/windlass demo

test: setup
	tests/run.sh

test-long: setup
	tests/run.sh long

test-web: PACKAGES += $(WEB_PACKAGES)
test-web: setup
	$(CARGO) build -p windlass
	tests/web/run.sh

package: PACKAGES += $(PACKAGE_PACKAGES)
package: setup
	packaging/package.sh

image: PACKAGES += $(PACKAGE_PACKAGES) $(IMAGE_PACKAGES)
image: setup
	packaging/package.sh
	packaging/image/build.sh

test-package: PACKAGES += $(PACKAGE_PACKAGES) $(IMAGE_PACKAGES) $(TEST_PACKAGE_PACKAGES)
test-package: setup
	tests/package.sh

test-fleet: PACKAGES += $(FLEET_PACKAGES)
test-fleet: setup
	$(CARGO) build -p windlass
	$(CARGO) test -p windlass-tests --test end_to_end -- --include-ignored --nocapture fleet::

# PYTHON is the interpreter; the wheel goes with every Python from 3.10 on
wheel: setup
	python/wheel.sh

test-python: setup
	$(CARGO) build -p windlass
	python/wheel.sh
	python/test.sh

# releases of Debian's kernels, or absolute paths (tests/vm/image.sh)
KERNELS ?= 6.1 6.12 6.18

vm-test: PACKAGES += $(VM_PACKAGES)
vm-test: setup
	$(CARGO) build -p windlass
	failed=""; for kernel in $(KERNELS); do \
		echo "== Linux $$kernel"; \
		WINDLASS_VM_KERNEL=$$kernel $(CARGO) test -p windlass-tests --test vm -- --include-ignored --nocapture \
			|| failed="$$failed $$kernel"; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# the crate whose own unsafe Rust is not all calls of C, which Miri cannot run
miri: setup
	@$(CARGO) +nightly miri --version >/dev/null 2>&1 || rustup component add --toolchain nightly miri rust-src || { \
		echo "skipped: miri: rustup could not add it to the nightly toolchain"; exit 0; }; \
	$(CARGO) +nightly miri test -p windlass-agent --lib -- map_value::

deny: setup
	tests/deny.sh all

bench: setup
	$(CARGO) build --release -p windlass
	target/release/windlass bench datapath
	target/release/windlass bench isolation
	target/release/windlass bench groups
	target/release/windlass bench sim
	target/release/windlass bench emulator

bench-ns3: PACKAGES += $(NS3_PACKAGES)
bench-ns3: setup
	$(CARGO) build --release -p windlass
	g++ -O2 -std=c++17 -o target/ns3-speed benches/ns3/speed.cc $(NS3_LIBS:%=-lns3-%)
	benches/ns3/compare.sh

# NS3GYM names a clone of ns3-gym
bench-ns3gym: PACKAGES += $(NS3_PACKAGES) $(NS3GYM_PACKAGES)
bench-ns3gym: wheel
	benches/ns3gym/compare.sh

FUZZ_SECONDS ?= 60

fuzz: setup
	for target in options flow boxed wire; do \
		mkdir -p fuzz/corpus/$$target; \
		fuzz/run.sh $$target -max_total_time=$(FUZZ_SECONDS) -max_len=4096 fuzz/corpus/$$target || exit 1; \
	done
	WINDLASS_ORACLE_SECONDS=$(FUZZ_SECONDS) $(CARGO) test -p windlass-oracle -- --nocapture

coverage: PACKAGES += $(COVERAGE_PACKAGES)
coverage: setup
	tests/coverage.sh

fmt: setup
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path crates/windlass-python/Cargo.toml
	$(CLANG_FORMAT) -i $(C_FILES)

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path crates/windlass-python/Cargo.toml --check
	$(CLANG_FORMAT) --dry-run -Werror $(C_FILES)
	$(CARGO) clippy --workspace --all-targets -- -D warnings
