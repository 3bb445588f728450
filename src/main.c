/* SPDX-License-Identifier: MIT */
/* main: hand over to the command table. */
#include "cmd/cmd.h"

int main(int argc, char **argv)
{
    return cmd_main(argc, argv);
}
