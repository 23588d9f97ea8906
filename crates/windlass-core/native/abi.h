/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All that Rust uses of the core: its types, and functions around what its headers define, a file a subject. */
#include "algorithm.h"
#include "arithmetic.h"
#include "box.h"
#include "counter.h"
#include "flow.h"
#include "group.h"
#include "share.h"
