/* SPDX-License-Identifier: MIT */
/* check_image: is the name of a container image one that a registry and a runtime take?
 *
 *     [HOST[:PORT]/]PATH[:TAG][@ALGORITHM:DIGEST]
 *
 * as the distribution specification of the Open Container Initiative has it: lower case with single
 * separators in the path, at most 128 characters of tag, a digest in hexadecimal.  On Slurm it may
 * be a file that all machines have: pyxis starts /srv/box.sqsh, apptainer /srv/box.sif. */
#include "spec/check/check_int.h"

enum { IMAGE_TAG_MAX = 128, IMAGE_NAME_MAX = 255, DIGEST_MIN = 32 };

static bool is_low(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
    return is_low(c) || (c >= 'A' && c <= 'Z');
}

/* Letters and digits with '.', '_', "__" or '-'s between. */
static bool path_part_ok(const char *p, size_t len)
{
    size_t run = 0; /* separators in a row */

    if (!len || !is_low(p[0]) || !is_low(p[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_low(p[i]) && !strchr("._-", p[i]))
            return false;
        run = is_low(p[i]) ? 0 : run + 1;
        if (run > 1 && p[i] != p[i - 1])
            return false;
        if ((run > 1 && p[i] == '.') || (run > 2 && p[i] == '_'))
            return false;
    }
    return true;
}

static bool is_host(const char *p, size_t len)
{
    return memchr(p, '.', len) || memchr(p, ':', len) ||
           (len == strlen("localhost") && !memcmp(p, "localhost", len));
}

static bool host_ok(const char *p, size_t len)
{
    const char *colon = memchr(p, ':', len);
    size_t name = colon ? (size_t)(colon - p) : len;

    if (!name || !is_alnum(p[0]) || !is_alnum(p[name - 1]))
        return false;
    for (size_t i = 0; i < name; i++)
        if (!is_alnum(p[i]) && p[i] != '-' && p[i] != '.')
            return false;
    for (size_t i = name + 1; i < len; i++)
        if (p[i] < '0' || p[i] > '9')
            return false;
    return !colon || len > name + 1;
}

static bool tag_ok(const char *p, size_t len)
{
    if (!len || len > IMAGE_TAG_MAX || (!is_alnum(p[0]) && p[0] != '_'))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_alnum(p[i]) && !strchr("._-", p[i]))
            return false;
    return true;
}

static bool digest_ok(const char *p)
{
    const char *colon = strchr(p, ':');

    if (!colon || colon == p)
        return false;
    for (; p < colon; p++)
        if (!is_low(*p) && !strchr("+._-", *p))
            return false;
    return strlen(colon + 1) >= DIGEST_MIN &&
           strspn(colon + 1, "0123456789abcdef") == strlen(colon + 1);
}

static const char *image_fault(const char *image)
{
    size_t len = strcspn(image, "@"), part;
    const char *tag = memrchr(image, ':', len), *p = image;

    if (image[len] && !digest_ok(image + len + 1))
        return "its digest is not one";
    if (tag && !memchr(tag, '/', len - (size_t)(tag - image))) {
        if (!tag_ok(tag + 1, len - (size_t)(tag + 1 - image)))
            return "its tag has other characters than letters, digits, '.', '_' and '-', or none";
        len = (size_t)(tag - image);
    }
    if (len > IMAGE_NAME_MAX)
        return "it is longer than 255 characters";
    for (const char *end = image + len; p <= end; p += part + 1) {
        const char *slash = memchr(p, '/', (size_t)(end - p));

        part = (size_t)((slash ? slash : end) - p);
        if (p == image && slash && is_host(p, part) ? !host_ok(p, part) : !path_part_ok(p, part))
            return p == image && slash && is_host(p, part)
                       ? "its registry is no host name with a port"
                       : "its path has other characters than lower-case letters, digits, '.', '_' "
                         "and '-', or an empty part";
    }
    return NULL;
}

#define IMAGE_HINT "Write it like registry.example.org/team/name:1.0."

bool spec_image_is_file(const char *image)
{
    return image && image[0] == '/';
}

static void image_file(struct check *c, const struct spec_component *k)
{
    const char *image = k->image;
    size_t len = strlen(image);

    if (k->target != SPEC_TARGET_SLURM)
        check_fault(c, &k->image, IMAGE_HINT " Files are images on Slurm alone.",
                    "'%.80s' is the path of a file, and only Slurm starts images from one", image);
    else if (k->build)
        check_fault(c, &k->image, IMAGE_HINT " Leave 'build' out for a file that is there already.",
                    "'%.80s' is the path of a file, and 'build' makes an image for a registry",
                    image);
    else if (image[len - 1] == '/' || strstr(image, "//") || strstr(image, "/../"))
        check_fault(c, &k->image, "Write it like /srv/images/name.sqsh.",
                    "'%.80s' is not the path of an image: it has a part that is empty or '..'",
                    image);
}

void check_images(struct check *c)
{
    for (size_t i = 0; i < c->s->component_count; i++) {
        const struct spec_component *k = &c->s->components[i];
        const char *base = k->build ? k->build->base : NULL;
        bool file = spec_image_is_file(k->image);
        const char *fault = k->image && !file ? image_fault(k->image) : NULL;

        if (base && image_fault(base))
            check_fault(c, &k->build->base, IMAGE_HINT, "'%.80s' is not an image: %s", base,
                        image_fault(base));
        if (file)
            image_file(c, k);
        else if (fault && k->image[0] == '.' && k->target == SPEC_TARGET_SLURM)
            check_fault(c, &k->image, "Write it like /srv/images/name.sqsh.",
                        "'%.80s' is not an image: a file is named by its whole path", k->image);
        else if (fault)
            check_fault(c, &k->image, IMAGE_HINT, "'%.80s' is not an image: %s", k->image, fault);
    }
}
