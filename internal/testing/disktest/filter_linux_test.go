//go:build amd64 || arm64

package disktest

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls that a supervisor is asked about. A number that this machine
// has not is not in it.
var watched = append([]uintptr{
	unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_PWRITE64,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS, unix.SYS_FTRUNCATE,
	unix.SYS_OPENAT, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_RENAMEAT, statAt,
}, legacy...)

// The kernel's structures, of linux/seccomp.h.
type (
	notif struct {
		id    uint64
		pid   uint32 // of the thread
		flags uint32
		nr    int32
		arch  uint32
		ip    uint64
		args  [6]uint64
	}
	notifResp struct {
		id    uint64
		val   int64
		errno int32 // negative, 0 for none
		flags uint32
	}
)

const (
	bpfLoadWord  = 0x20 // BPF_LD | BPF_W | BPF_ABS
	bpfJumpEqual = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	bpfReturn    = 0x06 // BPF_RET | BPF_K
	retAllow     = 0x7fff0000
)

// filter has every thread of this process ask before it makes a watched system
// call, and returns the descriptor at which a supervisor answers. See
// seccomp_unotify(2).
func filter() (int, error) {
	prog := []unix.SockFilter{{Code: bpfLoadWord}} // seccomp_data.nr
	for i, nr := range watched {
		prog = append(prog, unix.SockFilter{Code: bpfJumpEqual, Jt: uint8(len(watched) - i), K: uint32(nr)})
	}
	prog = append(prog, unix.SockFilter{Code: bpfReturn, K: retAllow}, unix.SockFilter{Code: bpfReturn, K: unix.SECCOMP_RET_USER_NOTIF})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("no new privileges: %w", err)
	}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH |
		unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV // a signal does not make a call come twice
	program := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return 0, fmt.Errorf("seccomp: %w", errno)
	}
	return int(fd), nil
}

// surrender filters this process and hands the listener over through the socket
// that it was started with.
func surrender(socket int) error {
	fd, err := filter()
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("hand over the listener: %w", err)
	}
	return unix.Close(fd)
}

// receive takes a listener from the other end of the socket.
func receive(socket int) (int, error) {
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return 0, err
	}
	if len(messages) != 1 {
		return 0, fmt.Errorf("no listener came: the child could not filter itself")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}
