# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# What people call; what kbuild reads is Kbuild. `make help` lists the targets.

# DKMS says KERNELRELEASE=<version> on the make line; it must not reach the
# kernel's own Makefile by another way than KDIR.
ifneq ($(KERNELRELEASE),)
KVER ?= $(KERNELRELEASE)
endif
MAKEOVERRIDES := $(filter-out KERNELRELEASE=%,$(MAKEOVERRIDES))
unexport KERNELRELEASE

KVER ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVER)/build
MODULE := ib_ipoib
VERSION := $(shell sed -n 's/^.define IPOIB_VERSION[^"]*"\(.*\)"/\1/p' ipoib.h)

# Packagers' DESTDIR and the kernel's INSTALL_MOD_PATH mean the same here.
INSTALL_MOD_PATH ?= $(DESTDIR)
MODROOT = $(INSTALL_MOD_PATH)/lib/modules/$(KVER)
MODDIR = $(MODROOT)/updates
DEPMOD = depmod $(if $(INSTALL_MOD_PATH),-b $(INSTALL_MOD_PATH)) $(KVER)
DKMS_TREE = $(DESTDIR)/usr/src/$(MODULE)-$(VERSION)

DRIVER ?= ours
KERNEL ?= 6.12
TESTS ?=

all: kdir
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

# netdev_dbg() on from the start, and symbols for a debugger
debug: kdir
	$(MAKE) -C $(KDIR) M=$(CURDIR) KCFLAGS="-DDEBUG -g" modules

kdir:
	@test -e "$(KDIR)/Makefile" || { \
		echo "No kernel headers in $(KDIR)."; \
		echo "Install linux-headers-$(KVER), or name others: make KDIR=/lib/modules/VERSION/build"; \
		echo "(make demo and make test fetch their own.)"; \
		exit 1; }

install: all
	install -D -m 644 $(MODULE).ko $(MODDIR)/$(MODULE).ko
	$(DEPMOD)
	@tools/testing/checks/installed.sh ours $(KVER) $(INSTALL_MOD_PATH)

uninstall:
	rm -f $(MODDIR)/$(MODULE).ko
	-@rmdir $(MODDIR) 2>/dev/null
	$(DEPMOD)
	@tools/testing/checks/installed.sh stock $(KVER) $(INSTALL_MOD_PATH)

# DKMS builds it again for every kernel that is installed later
dkms-install:
	@command -v dkms >/dev/null || { \
		echo "dkms is missing: apt-get install dkms"; exit 1; }
	install -d $(DKMS_TREE)
	cp -R Kbuild Makefile dkms.conf *.c *.h compat LICENSES tools $(DKMS_TREE)
	dkms add -m $(MODULE) -v $(VERSION)
	dkms build -m $(MODULE) -v $(VERSION) -k $(KVER)
	dkms install -m $(MODULE) -v $(VERSION) -k $(KVER)

demo:
	@tools/testing/demo/demo.sh $(DRIVER)

test:
	@tools/testing/suite.sh

# One kernel, one driver: make selftest KERNEL=7.3 DRIVER=ours TESTS="basic.sh"
selftest:
	@tools/testing/suite.sh --kernel $(KERNEL) --driver $(DRIVER) $(TESTS)

check:
	@tools/testing/checks/run.sh

# The driver's sources under KUnit, on the debug kernel
kunit:
	@tools/testing/suite.sh --kernel debug kunit

# The drain engine in a model world, and whether defects in it are seen
explore mutate:
	@$(MAKE) -s -C tools/testing/model $@

# Is it seen when a rule of the driver is broken? GUARDS="window idle-ageing"
guards:
	@tools/testing/guards/guards.py $(GUARDS)

stats:
	@tools/testing/checks/stats.sh

clean:
	@find . -path ./.git -prune -o \( -name '*.o' -o -name '*.ko' \
		-o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
		-o -name '.*.d' -o -name Module.symvers -o -name modules.order \) \
		-type f -exec rm -f {} +
	@rm -rf build results .tmp_versions .module-common.o

help:
	@echo 'Build:'
	@echo '  all           ib_ipoib.ko for the kernel in KDIR (default: the running one)'
	@echo '  debug         the same with debug messages and symbols'
	@echo '  install       into $(MODDIR), so that modprobe takes it (as root)'
	@echo '  uninstall     gives the distribution'"'"'s module back (as root)'
	@echo '  dkms-install  have DKMS build it for this and later kernels (as root)'
	@echo '  clean         removes what was built, and the results of tests'
	@echo 'Try and test (as root; fetches kernels and makes guests, host left clean):'
	@echo '  demo          two guests talk, one dies, its connection is drained; DRIVER=stock'
	@echo '  test          everything, on three kernels'
	@echo '  selftest      one kernel: KERNEL=6.12 DRIVER=ours TESTS="basic.sh"; KERNEL=debug'
	@echo '                has KASAN, lockdep and kmemleak (its first build takes long)'
	@echo '  kunit         unit tests of the driver, on the debug kernel'
	@echo '  explore       every state of the drain engine, in user space (no root)'
	@echo '  mutate        are defects of the drain engine seen by that? (no root)'
	@echo '  guards        are broken rules of the driver seen by the cases? (long)'
	@echo '  check         sparse, W=1, checkpatch, shellcheck and the house rules'
	@echo '  stats         figures of size and their budgets'
	@echo 'Variables: KDIR KVER INSTALL_MOD_PATH DESTDIR ITER DRIVER KERNEL TESTS GUARDS'

.PHONY: all debug kdir install uninstall dkms-install demo test selftest check \
	kunit explore mutate guards stats clean help
