// Package power shows what a loss of power leaves of the files of a process. A Tracer notes each call of a child that changes
// a file or syncs one, and a Disk plays these up to a moment, and then loses of what was not synced whatever it likes.
package power

import "errors"

// ErrNoTrace says that children cannot be traced here: the calls of a child are read on linux/amd64 alone, and not everywhere there.
var ErrNoTrace = errors.New("no child can be traced here")
