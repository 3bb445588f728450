/* SPDX-License-Identifier: MIT */
/* cmd: the whole program behind main().  The table that help, man pages, completion and the README
 * come from is in cmd_int.h. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

int cmd_main(int argc, char **argv); /* the exit status */

#endif
