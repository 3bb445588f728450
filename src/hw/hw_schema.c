/* SPDX-License-Identifier: MIT */
/* hw_schema: one row a field of the inventory.
 *
 * stoker.inventory/1 is written, read and documented from these tables; the key
 * of a field is the member's name in hw.h (class_ is "class").  Rows stand in the
 * order of the struct, which is the order in the document.
 *
 * A row is short for FIELD() and its relatives of base/text/fields.h with the struct
 * that the table describes, S, filled in: the key is the member's name, so that it
 * cannot differ from it.  A row with a role (STR_AS() and its like) says what it is to
 * `detect --compare`: without one it is compared. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>

#define STR(m, doc)               FIELD(#m, STR, S, m, doc)
#define INT(m, doc)               FIELD(#m, INT, S, m, doc)
#define BOOL(m, doc)              FIELD(#m, BOOL, S, m, doc)
#define STR_AS(role, m, doc)      FIELD_AS(role, #m, STR, S, m, doc)
#define INT_AS(role, m, doc)      FIELD_AS(role, #m, INT, S, m, doc)
#define BOOL_AS(role, m, doc)     FIELD_AS(role, #m, BOOL, S, m, doc)
#define SUBS_AS(role, m, t, doc)  FIELD_SUBS_AS(role, #m, S, m, m##_count, t, doc)
#define STRS(m, doc)              FIELD_LIST(#m, STRS, S, m, m##_count, doc)
#define INTS(m, doc)              FIELD_LIST(#m, INTS, S, m, m##_count, doc)
#define SUB(m, table, doc)        FIELD_SUB(#m, S, m, table, doc)
#define SUBS(m, table, doc)       FIELD_SUBS(#m, S, m, m##_count, table, doc)
#define TABLE(var, name, rows)    FIELD_TABLE(var, name, S, rows)
#define LOCAL_TABLE(var, n, rows) static FIELD_TABLE(var, n, S, rows)

static const char inventory_schema[] = "stoker.inventory/1";
enum { INVENTORY_MAX = 64 << 20 }; /* bytes of an inventory document */

/* ---- processors and memory ---- */
#define S struct hw_cache
static const struct field cache_rows[] = {
    INT_AS(KEY, level, "1, 2, 3 or 4"),
    STR_AS(KEY, type, "Data, Instruction or Unified"),
    INT(size_bytes, "size of one such cache, in bytes"),
    INT(count, "how many such caches the machine has"),
    INT(shared_by, "logical CPUs that share one"),
};
LOCAL_TABLE(cache_table, "cache", cache_rows);
#undef S

#define S struct hw_cpu
static const struct field cpu_rows[] = {
    STR(vendor, "maker as the processor names it"),
    STR(model, "product name"),
    INT(family, "family number of an x86 processor"),
    INT(model_id, "model number within the family"),
    STR(arch, "x86_64, aarch64 …"),
    INT(sockets, "packages with a CPU online"),
    INT(cores, "physical cores online"),
    INT(threads, "logical CPUs online"),
    STR(online, "logical CPUs online, as a list"),
    INT_AS(ABOUT, mhz_max, "highest clock, in MHz"),
    STR(governor, "frequency governor of the first CPU"),
    STRS(flags, "instruction sets that matter to our kernels"),
    SUBS(caches, &cache_table, "kinds of cache"),
};
LOCAL_TABLE(cpu_table, "cpu", cpu_rows);
#undef S

#define S struct hw_hugepages
static const struct field hugepages_rows[] = {
    INT_AS(KEY, size_bytes, "size of one page, in bytes"),
    INT(total, "pages reserved"),
    INT_AS(MOMENT, free, "pages nobody uses"),
};
LOCAL_TABLE(hugepages_table, "hugepages", hugepages_rows);
#undef S

#define S struct hw_numa
static const struct field numa_rows[] = {
    INT_AS(KEY, id, "the kernel's number of the node"),
    STR(cpus, "logical CPUs of the node, as a list"),
    INT(socket, "socket (physical package) of its CPUs; null without any"),
    INT_AS(ABOUT, mem_total_bytes, "memory of the node, in bytes"),
    INTS(distances, "kernel distance to each node, 10 is local"),
    SUBS(hugepages, &hugepages_table, "huge pages of the node"),
};
LOCAL_TABLE(numa_table, "numa", numa_rows);
#undef S

#define S struct hw_memory
static const struct field memory_rows[] = {
    INT_AS(ABOUT, total_bytes, "memory of the machine, in bytes"),
    INT_AS(MOMENT, available_bytes, "memory that can be had without swapping, in bytes"),
    INT(swap_bytes, "swap space, in bytes"),
    STR(thp, "transparent huge pages: always, madvise or never"),
    SUBS(hugepages, &hugepages_table, "huge pages of the machine"),
};
LOCAL_TABLE(memory_table, "memory", memory_rows);
#undef S

/* ---- PCI ---- */
#define S struct hw_pci
static const struct field pci_rows[] = {
    STR_AS(PLACE, bdf, "address, 0000:1b:00.0"),
    INT(vendor, "vendor id"),
    INT(device, "device id"),
    FIELD("class", INT, S, class_, "class, subclass and interface, 24 bits"),
    STR(driver, "kernel driver bound to it"),
    INT(numa, "NUMA node; null when the firmware does not say"),
    STR_AS(IDENTITY, parent, "address of the bridge above; null below the root complex"),
    STR_AS(IDENTITY, root, "host bridge, pci0000:15"),
    STR_AS(IDENTITY, physfn, "address of the physical function when this is a virtual one"),
    INT(vfs, "virtual functions enabled"),
    INT(vfs_max, "virtual functions it can have"),
    STR(link_speed, "link speed now, as the kernel writes it"),
    INT(link_width, "link lanes now"),
    STR(link_speed_max, "highest link speed"),
    INT(link_width_max, "most link lanes"),
    INT_AS(IDENTITY, iommu_group, "IOMMU group"),
    BOOL(acs, "access control redirects peer traffic; null when the configuration is unreadable"),
    BOOL(acs_direct, "... and lets pass what ATS has translated; null: it redirects nothing"),
    BOOL(alive, "the function answers configuration reads"),
};
LOCAL_TABLE(pci_table, "pci", pci_rows);
#undef S

/* ---- GPUs ---- */
#define S struct hw_nvlink
static const struct field nvlink_rows[] = {
    INT_AS(KEY, link, "number of the link on its GPU"),
    BOOL(active, "the link is up"),
    INT(version, "NVLink version"),
    INT(speed_mbps, "megabytes a second in one direction"),
    STR(remote_kind, "what is at the other end: gpu, switch, npu, unknown"),
    STR_AS(IDENTITY, remote_bdf, "PCI address of the other end"),
};
LOCAL_TABLE(nvlink_table, "nvlink", nvlink_rows);
#undef S

#define S struct hw_mig
static const struct field mig_rows[] = {
    INT_AS(KEY, gi, "GPU instance id"),
    INT_AS(KEY, ci, "compute instance id"),
    STR_AS(IDENTITY, uuid, "UUID to give CUDA_VISIBLE_DEVICES"),
    STR(name, "profile, 1g.18gb"),
    INT(mem_bytes, "memory of the instance, in bytes"),
    INT(sms, "streaming multiprocessors"),
    INT(slices, "compute slices"),
};
LOCAL_TABLE(mig_table, "mig", mig_rows);
#undef S

#define S struct hw_gpu_err
static const struct field gpu_err_rows[] = {
    STR_AS(KEY, call, "driver call that gave no value"),
    INT(code, "NVML return code"),
    STR(text, "what NVML calls it"),
};
LOCAL_TABLE(gpu_err_table, "gpu error", gpu_err_rows);
#undef S

#define S struct hw_gpu
static const struct field gpu_rows[] = {
    INT_AS(IDENTITY, index, "the driver's number; null when PCI alone knows the GPU"),
    STR(state, "ok, lost, hidden, error, unanswered or no-driver"),
    STR(name, "product name"),
    STR(arch, "architecture, Hopper"),
    STR(brand, "brand as the driver names it"),
    STR_AS(IDENTITY, uuid, "UUID"),
    STR_AS(IDENTITY, serial, "board serial number"),
    STR(board_part, "board part number"),
    STR(vbios, "VBIOS version"),
    STR(inforom, "InfoROM image version"),
    INT_AS(IDENTITY, minor, "N of /dev/nvidiaN"),
    STR_AS(PLACE, bdf, "PCI address"),
    INT(numa, "NUMA node"),
    STR(cpus, "logical CPUs near it, as a list"),
    INT(compute_major, "CUDA compute capability, major"),
    INT(compute_minor, "CUDA compute capability, minor"),
    INT(cores, "CUDA cores"),
    INT(sms, "streaming multiprocessors"),
    INT(mem_total_bytes, "memory, in bytes"),
    INT_AS(MOMENT, mem_reserved_bytes, "memory the driver keeps, in bytes"),
    INT_AS(MOMENT, mem_used_bytes, "memory in use, in bytes"),
    INT(mem_bus_bits, "memory bus width, in bits"),
    INT(bar1_bytes, "BAR1 aperture, in bytes"),
    INT(pcie_gen, "PCIe generation now"),
    INT(pcie_gen_max, "highest PCIe generation of GPU and slot"),
    INT(pcie_width, "PCIe lanes now"),
    INT(pcie_width_max, "most PCIe lanes of GPU and slot"),
    INT_AS(MOMENT, clock_sm_mhz, "SM clock now, in MHz"),
    INT(clock_sm_max_mhz, "highest SM clock, in MHz"),
    INT_AS(MOMENT, clock_mem_mhz, "memory clock now, in MHz"),
    INT(clock_mem_max_mhz, "highest memory clock, in MHz"),
    INT(clock_app_sm_mhz, "SM clock applications get, in MHz"),
    INT(clock_app_mem_mhz, "memory clock applications get, in MHz"),
    INT(power_limit_mw, "power limit enforced now, in milliwatts"),
    INT(power_default_mw, "power limit by default, in milliwatts"),
    INT(power_min_mw, "lowest power limit, in milliwatts"),
    INT(power_max_mw, "highest power limit, in milliwatts"),
    INT_AS(MOMENT, power_mw, "power drawn, in milliwatts"),
    INT_AS(MOMENT, temp_c, "temperature, in degrees Celsius"),
    INT(temp_slowdown_c, "temperature at which it slows down, in degrees Celsius"),
    INT(temp_shutdown_c, "temperature at which it shuts down, in degrees Celsius"),
    INT(temp_max_c, "highest temperature for work, in degrees Celsius"),
    INT_AS(MOMENT, temp_margin_c, "degrees Celsius to the first limit"),
    BOOL(ecc, "ECC is on"),
    BOOL(ecc_pending, "ECC is on after the next reset"),
    INT_AS(MOMENT, ecc_dbe_volatile, "uncorrected memory errors since the driver loaded"),
    INT_AS(MOMENT, ecc_dbe_total, "uncorrected memory errors in its life"),
    INT_AS(MOMENT, ecc_sbe_volatile, "corrected memory errors since the driver loaded"),
    INT_AS(MOMENT, ecc_sbe_total, "corrected memory errors in its life"),
    INT_AS(MOMENT, remap_correctable, "rows remapped for corrected errors"),
    INT_AS(MOMENT, remap_uncorrectable, "rows remapped for uncorrected errors"),
    BOOL(remap_pending, "a row waits for a reset to be remapped"),
    BOOL(remap_failed, "a row could not be remapped"),
    BOOL(mig, "MIG is on; null when the GPU has no MIG"),
    BOOL(mig_pending, "MIG is on after the next reset"),
    BOOL(persistence, "persistence mode is on"),
    STR(compute_mode, "default, exclusive or prohibited"),
    STR(virtualization, "none, passthrough, vgpu …"),
    STR(recovery_action, "none, reset, reboot, drain-p2p or drain-reset"),
    STR(gsp_firmware, "GSP firmware version"),
    STR(fabric_state, "not-supported, not-started, in-progress or completed"),
    STR(fabric_status, "ok, or what NVML says against it"),
    STR_AS(IDENTITY, fabric_cluster, "UUID of the NVLink fabric's cluster"),
    INT(fabric_clique, "clique within the cluster"),
    BOOL(c2c, "NVLink-C2C joins it to its processor: by the driver, else by its model"),
    STR(addressing, "hmm, ats or none"),
    INT(nvlinks_total, "NVLink links the chip has, active or not"),
    SUBS(nvlinks, &nvlink_table, "NVLink links"),
    INT(mig_max, "most MIG instances"),
    SUBS(migs, &mig_table, "MIG instances"),
    SUBS(errors, &gpu_err_table, "driver calls that gave no value, unless not supported"),
};
TABLE(hw_gpu_table, "gpu", gpu_rows);
#undef S

#define S struct hw_gpu_pair
static const struct field gpu_pair_rows[] = {
    INT_AS(KEY, a, "position of the first GPU in gpus"),
    INT_AS(KEY, b, "position of the second GPU in gpus"),
    INT(nvlinks, "NVLink links between them, direct or through switches"),
    STR(path, "NV18, PIX, PXB, PHB, NODE, SYS or DIS"),
    STR(p2p_read, "NVML's word on peer reads"),
    STR(p2p_write, "NVML's word on peer writes"),
    STR(p2p_nvlink, "NVML's word on peer access by NVLink"),
    STR(p2p_atomics, "NVML's word on peer atomics"),
};
TABLE(hw_gpu_pair_table, "gpu pair", gpu_pair_rows);
#undef S

#define S struct hw_nvidia
static const struct field nvidia_rows[] = {
    STR(driver_version, "driver version"),
    INT(cuda_driver, "highest CUDA version the driver serves, 13000 is 13.0"),
    STR(nvml_version, "NVML version"),
    STR(nvml_library, "name NVML was loaded under; null: not found"),
    STR(nvml_error, "why the driver gave no answer"),
    STR(kernel_module, "open or proprietary; null: not loaded"),
    INT(nvswitches, "NVSwitch PCI functions"),
    STR(fabricmanager_version, "fabric manager version installed"),
    BOOL(fabricmanager_running, "the fabric manager runs"),
    BOOL(persistenced_running, "the persistence daemon runs"),
    BOOL(hostengine_running, "DCGM's host engine runs"),
    BOOL(mps_running, "the MPS control daemon runs"),
    BOOL(imex_running, "nvidia-imex runs: memory shared between machines over NVLink"),
    INT(imex_nodes, "machines in nvidia-imex's nodes_config.cfg; null: no such file"),
    INT(imex_channels, "IMEX channel devices here; null: the driver has none"),
    STR(hung_call, "driver call that never returned; null: none"),
    INT_AS(IDENTITY, hung_pid, "process that sleeps in it"),
    STR(hung_state, "its process state, D is uninterruptible"),
    STR(hung_wchan, "kernel function it sleeps in"),
    STR(hung_syscall, "system call it sleeps in"),
};
TABLE(hw_nvidia_table, "nvidia", nvidia_rows);
#undef S

#define S struct hw_nvml
static const struct field nvml_rows[] = {
    SUB(nvidia, &hw_nvidia_table, "driver and library"),
    SUBS(gpus, &hw_gpu_table, "GPUs in the driver's order"),
    SUBS(pairs, &hw_gpu_pair_table, "pairs of GPUs, by the driver's numbers"),
};
TABLE(hw_nvml_table, "nvml", nvml_rows);
#undef S

/* ---- RDMA ---- */
#define S struct hw_gid
static const struct field gid_rows[] = {
    INT(index, "position in the port's table"),
    STR(gid, "eight groups of four hexadecimal digits"),
    STR(type, "IB/RoCE v1 or RoCE v2"),
    STR(ndev, "network device; null when none in this namespace"),
};
LOCAL_TABLE(gid_table, "gid", gid_rows);
#undef S

#define S struct hw_rdma_port
static const struct field rdma_port_rows[] = {
    INT_AS(KEY, port, "port number, from 1"),
    STR(state, "ACTIVE, DOWN …"),
    STR(phys_state, "LinkUp, Disabled …"),
    STR(link_layer, "InfiniBand or Ethernet"),
    INT(rate_mbps, "rate, in megabits a second"),
    STR(rate, "rate as the kernel writes it"),
    INT_AS(IDENTITY, lid, "local id"),
    INT(sm_lid, "local id of the subnet manager"),
    SUBS_AS(IDENTITY, gids, &gid_table, "GIDs that are not all zero"),
};
LOCAL_TABLE(rdma_port_table, "rdma port", rdma_port_rows);
#undef S

#define S struct hw_rdma
static const struct field rdma_rows[] = {
    STR_AS(KEY, name, "device, mlx5_0"),
    STR(bdf, "PCI address"),
    INT(numa, "NUMA node"),
    STR(node_type, "CA, RNIC …"),
    STR_AS(IDENTITY, node_guid, "node GUID"),
    STR_AS(IDENTITY, sys_image_guid, "GUID of the card, which its ports share"),
    STR(hca, "adapter type, MT4129"),
    STR(board, "board id"),
    STR(firmware, "firmware version"),
    STR(driver, "kernel driver"),
    BOOL(vf, "it is a virtual function"),
    BOOL(bus_first, "there is a device 0, function 0 on its PCI bus"),
    STR(physfn, "PCI address of the physical function"),
    BOOL(openable, "its node is in /dev/infiniband, so that a program here can open it"),
    STRS(netdevs, "network devices on the same function"),
    SUBS(ports, &rdma_port_table, "ports"),
};
LOCAL_TABLE(rdma_table, "rdma", rdma_rows);
#undef S

/* ---- network ---- */
#define S struct hw_addr
static const struct field addr_rows[] = {
    STR_AS(KEY, family, "inet or inet6"),
    STR_AS(IDENTITY, addr, "address"),
    INT(prefix, "prefix length, in bits"),
};
LOCAL_TABLE(addr_table, "address", addr_rows);
#undef S

#define S struct hw_net
static const struct field net_rows[] = {
    STR_AS(KEY, name, "interface"),
    INT_AS(IDENTITY, ifindex, "the kernel's number"),
    STR(kind, "physical, virtual, loopback, bond, bridge, vlan, veth …"),
    STR_AS(IDENTITY, mac, "hardware address"),
    INT(mtu, "largest packet, in bytes"),
    INT(speed_mbps, "speed, in megabits a second"),
    STR(operstate, "up, down or unknown"),
    BOOL(up, "it is switched on"),
    BOOL(running, "it has a carrier"),
    STR(driver, "kernel driver"),
    STR(bdf, "PCI address"),
    INT(numa, "NUMA node"),
    STR(physfn, "PCI address of the physical function when this is a virtual one"),
    STR(rdma, "RDMA device behind it"),
    STR(master, "bond or bridge that it is part of; null: none"),
    BOOL(default_route, "a default route leaves by it"),
    SUBS(addrs, &addr_table, "addresses"),
};
LOCAL_TABLE(net_table, "network interface", net_rows);
#undef S

#define S struct hw_route
static const struct field route_rows[] = {
    STR(family, "inet or inet6"),
    STR(dst, "destination network"),
    INT(prefix, "prefix length, in bits"),
    STR(gateway, "next hop; null: on the link"),
    STR(dev, "interface"),
    INT(metric, "the lower one is taken"),
};
LOCAL_TABLE(route_table, "route", route_rows);
#undef S

#define S struct hw_distance
static const struct field distance_rows[] = {
    INT_AS(KEY, gpu, "position of the GPU in gpus"),
    STR_AS(KEY, nic, "RDMA device, or network device when it has no RDMA"),
    STR(path, "PIX, PXB, PHB, NODE or SYS; null: unknown"),
};
LOCAL_TABLE(distance_table, "distance", distance_rows);
#undef S

/* ---- limits, storage ---- */
#define S struct hw_limits
static const struct field limits_rows[] = {
    INT(memlock_bytes, "memory that may be locked, in bytes; -1: unlimited"),
    INT(memlock_hard_bytes, "to which it may be raised, in bytes; -1: unlimited"),
    INT(nofile, "open files a process may have; -1: unlimited"),
    INT_AS(ABOUT, shm_bytes, "size of /dev/shm, in bytes"),
    BOOL(iommu, "the kernel made IOMMU groups"),
    STR(iommu_mode, "translated or passthrough; null: unknown"),
    INT(acs_bridges, "PCI bridges that redirect peer traffic"),
    STR(peermem, "peer memory module: nvidia_peermem, nv_peer_mem; null: none seen"),
    STR(peermem_version, "its version"),
    BOOL(dmabuf, "kernel and driver can do GPUDirect by dma-buf"),
    STR_AS(IDENTITY, dmabuf_why, "what that rests on"),
    INT(uverbs, "RDMA user device nodes"),
    STR_AS(WORDS, cmdline, "kernel command line, the parts that matter"),
    BOOL(numa_balancing, "the kernel moves pages between nodes by itself"),
};
LOCAL_TABLE(limits_table, "limits", limits_rows);
#undef S

#define S struct hw_disk
static const struct field disk_rows[] = {
    STR_AS(IDENTITY, name, "block device, nvme0n1"),
    STR(model, "product name"),
    INT(size_bytes, "size, in bytes"),
    BOOL(rotational, "it spins"),
    STR(transport, "nvme, virtio, ata, scsi, usb …"),
    STR_AS(PLACE, bdf, "PCI address"),
    INT(numa, "NUMA node"),
    STR(scheduler, "I/O scheduler in use"),
};
LOCAL_TABLE(disk_table, "disk", disk_rows);
#undef S

#define S struct hw_mount
static const struct field mount_rows[] = {
    STR(source, "device or server"),
    STR_AS(KEY, target, "mount point"),
    STR(fstype, "file system"),
    STR_AS(WORDS, options, "mount options"),
    INT_AS(ABOUT, size_bytes, "size, in bytes; null when it was not asked or did not answer"),
    INT_AS(MOMENT, avail_bytes, "room for an ordinary user, in bytes"),
};
LOCAL_TABLE(mount_table, "mount", mount_rows);
#undef S

/* ---- where it runs ---- */
#define S struct hw_env
static const struct field env_rows[] = {
    STR_AS(KEY, name, "environment variable"),
    STR(value, "its value"),
};
TABLE(hw_env_table, "environment variable", env_rows);
#undef S

#define S struct hw_place
static const struct field place_rows[] = {
    STR_AS(IDENTITY, hostname, "host name"),
    STR(kernel, "kernel release"),
    STR(os, "distribution"),
    STR(vendor, "system vendor by the firmware"),
    STR(product, "system product by the firmware"),
    STR(hypervisor, "kvm, firecracker, vmware …; null: none seen"),
    STR(container, "docker, podman, kubernetes, crio, lxc …; null: none seen"),
    STR(manager, "daemon that starts jobs here: slurmd, kubelet …, or none; null: not known"),
    INT(cgroup, "control group version, 1 or 2"),
    INT(cpu_quota_milli, "CPUs by quota, in thousandths; null: no quota"),
    INT(cpus_usable, "CPUs by affinity, CPU set and quota, at least 1"),
    STR(cpuset, "CPU set, as a list"),
    INT_AS(ABOUT, mem_limit_bytes, "memory limit of the control group, in bytes; null: none"),
    INT(pids_limit, "process limit of the control group; null: none"),
    STR_AS(IDENTITY, k8s_pod, "Kubernetes pod"),
    STR_AS(IDENTITY, k8s_namespace, "Kubernetes namespace"),
    STR_AS(IDENTITY, k8s_node, "Kubernetes node"),
    STR_AS(IDENTITY, slurm_job, "Slurm job id"),
    STR_AS(IDENTITY, slurm_nodes, "nodes of the Slurm job"),
    STR_AS(IDENTITY, slurm_gpus, "GPUs Slurm gave on this node"),
    STR_AS(IDENTITY, slurm_cpus, "CPUs Slurm gave on this node"),
    SUBS(env, &hw_env_table, "variables that steer GPU work"),
};
LOCAL_TABLE(place_table, "place", place_rows);
#undef S

/* ---- software, notes, the whole ---- */
#define S struct hw_soft
static const struct field soft_rows[] = {
    STR_AS(KEY, name, "cuda, cudnn, nccl, docker, containerd …"),
    STR(version, "version; null: found, version not told"),
    STR(path, "where it was found"),
};
TABLE(hw_soft_table, "software", soft_rows);
#undef S

#define S struct hw_nccl_var
static const struct field nccl_var_rows[] = {
    STR_AS(KEY, name, "variable"),
    STR(value, "value"),
    STR(path, "file that sets it"),
};
LOCAL_TABLE(nccl_var_table, "nccl setting", nccl_var_rows);
#undef S

#define S struct hw_nccl_way
static const struct field nccl_way_rows[] = {
    INT(gpu, "position in gpus"),
    STR(nic, "RDMA device; null: to another GPU"),
    INT(peer, "position of that GPU in gpus; null: to an RDMA device"),
    STR(path, "distance by the topology file: NV and a count, PIX … SYS; null: it does not say"),
    STR(path_function, "the same to function 0 of the NIC, where NCCL looks for it with "
                       "NCCL_IB_MERGE_VFS=0; null: to another GPU"),
    STR(path_bus, "the same to device and function 0 of its bus, where NCCL looks for it by "
                  "default; null: to another GPU"),
    BOOL(named, "the file names the NIC, by one of the three; null: to another GPU"),
};
LOCAL_TABLE(nccl_way_table, "nccl distance", nccl_way_rows);
#undef S

#define S struct hw_nccl
static const struct field nccl_rows[] = {
    STRS(conf_files, "configuration files that were read, in NCCL's order"),
    SUBS(conf, &nccl_var_table, "settings of those files; the environment wins over them"),
    STR(topo_file, "topology file that NCCL takes PCI distances from; null: none"),
    STR(topo_error, "why that file could not be followed; null: it was"),
    SUBS(topo, &nccl_way_table, "distances of GPUs to NICs and GPUs by the topology file"),
    STR(net_plugin, "net plug-in that NCCL would load; null: none"),
    STR(tuner_plugin, "tuner plug-in that NCCL would load; null: none"),
    BOOL(verbs, "libibverbs is where the loader looks"),
    BOOL(verbs_told, "verbs_providers has all; null: not known"),
    STRS(verbs_providers, "providers of libibverbs that are here: mlx5, efa …"),
};
LOCAL_TABLE(nccl_table, "nccl", nccl_rows);
#undef S

#define S struct hw_note
static const struct field note_rows[] = {
    STR(source, "part of the program that noticed it"),
    STR(text, "what kept it from knowing more"),
};
LOCAL_TABLE(note_table, "note", note_rows);
#undef S

#define S struct hw
static const struct field hw_rows[] = {
    BOOL_AS(IDENTITY, captured, "read from a captured machine, not from this one"),
    SUB(place, &place_table, "where it runs"),
    SUB(cpu, &cpu_table, "processors"),
    SUB(memory, &memory_table, "memory"),
    SUBS(numa, &numa_table, "NUMA nodes"),
    SUB(nvidia, &hw_nvidia_table, "NVIDIA driver and daemons"),
    SUBS(gpus, &hw_gpu_table, "GPUs in order of PCI address"),
    SUBS(gpu_pairs, &hw_gpu_pair_table, "pairs of GPUs"),
    SUBS(rdma, &rdma_table, "RDMA devices"),
    SUBS(nets, &net_table, "network interfaces"),
    SUBS_AS(IDENTITY, routes, &route_table, "routes of the main table"),
    INT(route_tables, "other IPv4 routing tables (ip rule) with a route by a gateway"),
    SUBS(distances, &distance_table, "GPU to NIC distances"),
    SUB(limits, &limits_table, "limits and kernel facts"),
    SUBS(pci, &pci_table, "PCI functions that matter and the bridges above them"),
    SUBS(disks, &disk_table, "disks"),
    SUBS(mounts, &mount_table, "mounts"),
    SUBS(software, &hw_soft_table, "software found"),
    SUB(nccl, &nccl_table, "what steers NCCL besides the environment"),
    SUBS_AS(IDENTITY, notes, &note_table, "what kept us from knowing more"),
};
TABLE(hw_table, "stoker.inventory/1", hw_rows);
#undef S

/* Text that needs no change may be a literal; what needs one came from outside and
 * lies in an arena.  A name of two lines could pass for a line of ours. */
static void clean_str(const char *s)
{
    char *w = (char *)(uintptr_t)s;

    if (!s)
        return;
    if (!str_is_text(s, strlen(s)))
        str_make_text(w);
    for (size_t i = strcspn(s, "\t\n"); s[i]; i += strcspn(s + i, "\t\n"))
        w[i] = '?';
}

static void clean_list(const struct field *f, void *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (f->kind == FIELD_STRS)
            clean_str(((const char *const *)items)[i]);
        else if (f->kind == FIELD_ARRAY)
            hw_clean(f->sub, (char *)items + i * f->sub->size);
    }
}

void hw_clean(const struct field_table *t, void *obj)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->rows[i];
        char *p = (char *)obj + f->off;

        if (f->kind == FIELD_STR)
            clean_str(*(const char *const *)p);
        else if (f->kind == FIELD_STRUCT)
            hw_clean(f->sub, p);
        else if (f->kind == FIELD_STRS || f->kind == FIELD_ARRAY)
            clean_list(f, *(void **)p, *(size_t *)((char *)obj + f->count_off));
    }
}

void hw_write_json(const struct hw *hw, struct buf *out)
{
    struct json_out w;

    assert(hw && out);
    json_out_init(&w, out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", inventory_schema);
    fields_write_members(&w, &hw_table, hw);
    json_obj_end(&w);
    buf_addc(out, '\n');
}

static enum rc schema_check(const struct json *doc, struct err *err)
{
    const char *tag = json_str(json_get(doc, "schema"));

    if (doc->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "an inventory is a JSON object");
    if (!tag)
        return err_set(err, RC_PARSE, "not an inventory: no \"schema\" member");
    if (!str_eq(tag, inventory_schema))
        return err_set(err, RC_PARSE, "not an inventory: schema is '%.64s', expected '%s'", tag,
                       inventory_schema);
    return RC_OK;
}

enum rc hw_read_json(const char *text, size_t len, struct hw **out, struct err *err)
{
    struct arena tree = { 0 }; /* the parsed text; the inventory copies what it keeps */
    struct json *doc = NULL;
    struct hw *hw = NULL;
    enum rc rc;

    assert(text && out);
    if (len > INVENTORY_MAX)
        return err_set(err, RC_LIMIT, "inventory of %zu bytes is larger than %d bytes", len,
                       INVENTORY_MAX);
    rc = json_parse(&tree, text, len, &doc, err);
    if (rc == RC_OK)
        rc = schema_check(doc, err);
    if (rc == RC_OK) {
        hw = xcalloc(1, sizeof(*hw));
        arena_init(&hw->arena);
        rc = fields_read(&hw->arena, doc, &hw_table, hw, err);
        if (rc == RC_OK)
            rc = hw_range_check(hw, err);
    }
    arena_release(&tree);
    if (rc != RC_OK) {
        hw_free(hw);
        return rc;
    }
    hw_c2c_fill(hw);
    hw_clean(&hw_table, hw);
    *out = hw;
    return RC_OK;
}
