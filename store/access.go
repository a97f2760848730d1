package store

import (
	"io/fs"
	"os"
)

// warnOfAccess logs a warning if users other than that of the process can change files of
// the directory, which an engine makes for its user alone.
//
// It only warns: whether others can do harm there is for the operator to judge.
func (d *Dir) warnOfAccess() {
	info, err := os.Stat(d.path)
	if err != nil {
		d.options.Logger.Warn("who can write into the engine directory cannot be told", "directory", d.path, "error", err)
		return
	}
	for _, text := range accessWarnings(info.Mode(), ownerOf(info), os.Geteuid()) {
		d.options.Logger.Warn(text, "directory", d.path, "mode", info.Mode().String())
	}
}

// accessWarnings returns one warning for each group of other users who can change files of a
// directory. owner and user are numeric ids, or -1 where the system has no such ids.
func accessWarnings(mode fs.FileMode, owner, user int) (out []string) {
	if owner != user && owner >= 0 {
		out = append(out, "the engine directory belongs to another user, who can replace everything in it: chown it, or use one of your own")
	}
	if mode.Perm()&0o002 != 0 {
		out = append(out, "everybody on this machine can write into the engine directory: chmod it to 0700")
	}
	return out
}
