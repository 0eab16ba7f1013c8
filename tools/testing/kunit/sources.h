/* SPDX-License-Identifier: GPL-2.0-only */
/* What tests can ask of the driver's sources beside their own interfaces. */
#ifndef KUNIT_SOURCES_H
#define KUNIT_SOURCES_H

#include <linux/types.h>

#include "ipoib_cm_drain.h"

void fake_warned(const char *file, int line, const char *what);
unsigned int fake_warnings(void);
void fake_alloc_set(int good);
bool fake_alloc_fails(void);
void fake_drain_set_state(struct ipoib_drain_qp *q, enum ipoib_drain_state to);

#endif /* KUNIT_SOURCES_H */
