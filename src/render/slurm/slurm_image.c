/* SPDX-License-Identifier: MIT */
/* slurm_image: the image of a job, run by what its machines have for it.
 *
 * Slurm itself runs no images.  Two things do that sites install: pyxis, a plug-in of srun that has
 * enroot unpack an image, and apptainer (or singularity, its old name), a program.  Which of them
 * is there is a matter of the machines and not of the spec, so the batch script looks when the
 * job starts, and ends with a message where there is neither: the command is not run beside
 * its image. */
#include "base/str.h"
#include "render/slurm/slurm_int.h"

/* Apptainer's own format, which enroot does not read. */
static bool is_sif(const char *image)
{
    return spec_image_is_file(image) && str_ends(image, ".sif");
}

/* enroot wants a '#' behind the registry: "registry.example.org#llm/train:24.10". */
static void pyxis_image(struct buf *out, const char *image)
{
    const char *slash = strchr(image, '/');
    size_t host = slash ? (size_t)(slash - image) : 0;

    if (!spec_image_is_file(image) && host &&
        (memchr(image, '.', host) || memchr(image, ':', host)))
        buf_addf(out, "%.*s#%s", (int)host, image, slash + 1);
    else
        buf_adds(out, image);
}

void slurm_container(struct slurm *c, struct buf *out, const struct spec_component *k)
{
    struct buf image = { 0 }, mounts = { 0 };
    const char *gpu = k->gpus || slurm_job_shares(k) ? " --nv" : "";

    buf_adds(out, "\ncontainer=() # options of srun\n"
                  "inside=()    # words before the command\n");
    if (!k->image)
        return;
    pyxis_image(&image, k->image);
    /* "/lustre:/lustre,/home/data:/data:ro" */
    for (size_t i = 0; i < k->mount_count; i++) {
        const struct spec_mount *m = &k->mounts[i];
        const struct spec_storage *s = spec_storage_find(c->r->spec, m->storage);

        buf_addf(&mounts, "%s%s%s%s:%s%s", i ? "," : "", s && s->path ? s->path : m->path,
                 m->subpath ? "/" : "", m->subpath ? m->subpath : "", m->path,
                 m->read_only || (s && s->read_only) ? ":ro" : "");
    }
    buf_adds(out, "# The image, by what this machine has for it.\n"
                  "image=");
    quote_sh(out, k->image);
    buf_addf(out, " # %s\n", render_from(c->r, &k->image));
    if (mounts.len) {
        buf_adds(out, "mounts=");
        quote_sh(out, buf_str(&mounts));
        buf_addf(out, " # %s\n", render_from(c->r, &k->mounts));
    }
    if (!is_sif(k->image)) {
        buf_adds(out, "if srun --help 2>/dev/null | grep -q -e --container-image; then # pyxis\n"
                      "    container=(--container-image=");
        quote_sh(out, buf_str(&image));
        buf_adds(out, mounts.len ? " --container-mounts=\"$mounts\")\n" : ")\n");
    }
    buf_addf(out,
             "%sif apptainer=$(command -v apptainer || command -v singularity); then\n"
             "    inside=(\"$apptainer\" exec%s%s \"%s$image\")\n"
             "else\n"
             "    echo \"$SLURM_JOB_NAME: %s on $(hostname -s) to run the image '$image'\" >&2\n"
             "    exit 127\n"
             "fi\n",
             is_sif(k->image) ? "" : "el", gpu, mounts.len ? " --bind=\"$mounts\"" : "",
             spec_image_is_file(k->image) ? "" : "docker://",
             is_sif(k->image) ? "apptainer is not" : "neither pyxis nor apptainer is");
    buf_release(&image);
    buf_release(&mounts);
}
