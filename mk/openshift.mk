# SPDX-License-Identifier: MIT
# The launcher, which src/render compiles in with .incbin, which -MMD does not see.
$(B)/obj/render/openshift_launch.o: data/launcher.sh
