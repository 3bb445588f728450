# SPDX-License-Identifier: MIT
# A Debian package of this commit, and a proof of it:
#
#   make deb        build/deb/stoker_VERSION_ARCH.deb, from the files of HEAD; lintian when it is there
#   make test-deb   installed, run and removed in a fresh debootstrap of Debian 12; needs root
DEB_DIR := build/deb

.PHONY: deb test-deb
deb:
	@tools/setup deb
	rm -rf $(DEB_DIR) && mkdir -p $(DEB_DIR)/stoker-$(VERSION)
	git archive HEAD | tar -x -C $(DEB_DIR)/stoker-$(VERSION)
	cd $(DEB_DIR)/stoker-$(VERSION) && dpkg-buildpackage -b -us -uc
	lintian --fail-on error $(DEB_DIR)/*.changes
	@ls $(DEB_DIR)/*.deb
test-deb: deb
	tests/deb.sh $(DEB_DIR)/stoker_*.deb
