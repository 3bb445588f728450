/* SPDX-License-Identifier: MIT */
/* examples: five complete specs, compiled in from data/examples/. */
#include "base/str.h"
#include "spec/spec.h"

/* The assembler reads the file, so the text in the program is the text in data/; the
 * Makefile has the dependency.  Paths are relative to the source root. */
#define EXAMPLE_(id, name)                                                                         \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global spec_example_" #id "\n"                                                       \
            ".global spec_example_" #id "_end\n"                                                   \
            "spec_example_" #id ":\n"                                                              \
            ".incbin \"data/examples/" name ".yaml\"\n"                                            \
            "spec_example_" #id "_end:\n"                                                          \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char spec_example_##id[], spec_example_##id##_end[]

EXAMPLE_(ai, "ai-platform-h200");
EXAMPLE_(driving, "driving-h200");
EXAMPLE_(kb, "kb-a100");
EXAMPLE_(llm, "llm-cluster");
EXAMPLE_(rdma, "rdma-openshift");

static const struct {
    const char *name, *what, *text, *end;
} files[] = {
    /* sorted by name */
    { "ai-platform-h200", "four AI components on one node of 8 H200, memory pools, compose",
      spec_example_ai, spec_example_ai_end },
    { "driving-h200", "training one driving model on one node of 8 H200", spec_example_driving,
      spec_example_driving_end },
    { "kb-a100", "embeddings and reranking for a knowledge base on one A100", spec_example_kb,
      spec_example_kb_end },
    { "llm-cluster", "an LLM training cluster of 64 H100 nodes with Slurm and Lustre",
      spec_example_llm, spec_example_llm_end },
    { "rdma-openshift", "multi-node training with RDMA on OpenShift, 0 to 6 nodes of 4 GPUs",
      spec_example_rdma, spec_example_rdma_end },
};

size_t spec_example_count(void)
{
    return ARRAY_SIZE(files);
}

struct spec_example spec_example_at(size_t i)
{
    return (struct spec_example){ .name = files[i].name,
                                  .what = files[i].what,
                                  .text = files[i].text,
                                  .len = (size_t)(files[i].end - files[i].text) };
}

bool spec_example_find(const char *name, struct spec_example *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (str_eq(files[i].name, name)) {
            *out = spec_example_at(i);
            return true;
        }
    return false;
}
