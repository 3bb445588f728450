# SPDX-License-Identifier: MIT
# The launch scripts, which src/render compiles in with .incbin, which -MMD does not see.
$(B)/obj/render/openshift_launch.o: data/launcher.sh
$(B)/obj/render/kubernetes_launch.o: data/launch.sh
$(B)/obj/render/k8s_launch.o: data/hold.sh
