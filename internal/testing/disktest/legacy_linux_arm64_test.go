package disktest

import "golang.org/x/sys/unix"

// legacy are calls that only old architectures have.
var legacy []uintptr

// statAt is what os.Lstat calls.
const statAt = unix.SYS_FSTATAT

func legacyOpen(uintptr) bool { return false }
