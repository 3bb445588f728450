# SPDX-License-Identifier: MIT
# The launch scripts, which src/render compiles in with .incbin, which -MMD does not see.
$(B)/obj/render/openshift/openshift_launch.o: data/render/launcher.sh
$(B)/obj/render/kubernetes/kubernetes_launch.o: data/render/launch.sh
$(B)/obj/render/k8s/k8s_launch.o: data/render/hold.sh
