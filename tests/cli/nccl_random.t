#!/bin/sh
# SPDX-License-Identifier: MIT
# Random machines: what `stoker detect --env` prints is never worse than printing nothing, held
# against a model of NCCL of its own (nccl_random.py).  The seeds are fixed, so that a run is
# always the same; RANDOM_MACHINES=2000 tries as many more.
. "$(dirname "$0")/lib.sh"

# 1102: a nearer NIC is of another fabric; 1167: of two InfiniBand fabrics one has a port down
# 5057: two RoCE ports with the default route, and one of InfiniBand, for eight GPUs
# 20123: two InfiniBand subnets, each of which has more at some GPUs
test_expect 'machines that once went wrong' "
    for seed in 1102 1167 5057 20123; do '$TOP/tests/cli/nccl_random.py' '$BUILD/stoker' \$seed 1 || exit 1; done
"
test_expect 'machines of sixteen seeds: never worse, nothing named that is not there, no complaint' "
    '$TOP/tests/cli/nccl_random.py' '$BUILD/stoker' 1 16
"
if [ -n "${RANDOM_MACHINES:-}" ]; then
    test_expect 'more of them' "
        '$TOP/tests/cli/nccl_random.py' '$BUILD/stoker' 1000 '$RANDOM_MACHINES'
    "
fi
test_done
