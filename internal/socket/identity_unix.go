//go:build unix

package socket

import (
	"fmt"
	"os"
	"syscall"
)

// identityOf returns a text that tells a directory from its copies.
func identityOf(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", nil
	}
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino), nil
}
