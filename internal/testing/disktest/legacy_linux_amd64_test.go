package disktest

import "golang.org/x/sys/unix"

// legacy are calls that only old architectures have.
var legacy = []uintptr{unix.SYS_OPEN, unix.SYS_MKDIR, unix.SYS_UNLINK, unix.SYS_RENAME}

// statAt is what os.Lstat calls.
const statAt = unix.SYS_NEWFSTATAT

func legacyOpen(nr uintptr) bool { return nr == unix.SYS_OPEN }
