package handler

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A piping connects the standard streams of a command. Its pipes are not those of
// exec.Cmd, whose Wait waits until the output has ended: processes that the
// command has left in its group may hold that open, and are to be killed first.
type piping struct {
	stdin  io.WriteCloser // nil without standard input; Wait closes it
	reads  []*os.File     // our ends of the output
	writes []*os.File     // the ends of the command
	sinks  []io.Writer
	copied chan error // one for each of reads
	group  sync.WaitGroup
}

// connectPipes makes the pipes of a command that is to be started next.
func connectPipes(cmd *exec.Cmd, input bool, stdout, stderr io.Writer) (*piping, error) {
	p := &piping{sinks: []io.Writer{stdout, stderr}, copied: make(chan error, 2)}
	for _, stream := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closePipes()
			return nil, err
		}
		p.reads, p.writes, *stream = append(p.reads, r), append(p.writes, w), w
	}
	if !input {
		return p, nil
	}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		p.closePipes()
		return nil, err
	}
	return p, nil
}

// startCopying begins to copy, once the command runs. The goroutines end in
// waitForOutput.
func (p *piping) startCopying(stdin []byte) {
	for i, r := range p.reads {
		_ = p.writes[i].Close() // the command has it
		p.group.Go(func() {
			_, err := io.Copy(p.sinks[i], r)
			p.copied <- err
		})
	}
	if p.stdin != nil {
		p.group.Go(func() {
			_, _ = io.Copy(p.stdin, bytes.NewReader(stdin)) // a program need not read it all
			_ = p.stdin.Close()
		})
	}
}

// waitForOutput waits for the end of the output of a command that has ended, and whose group was killed, but no longer
// than waitDelay: then it fails with exec.ErrWaitDelay. It waits in four parts, so that a process of the host that had no
// processor for a while still reads what is there. The time begins when the group is empty, for which it waits no longer
// than killDelay.
func (p *piping) waitForOutput(hasGroup func() bool) error {
	defer p.group.Wait()
	defer p.closePipes() // which ends what still copies
	const part, inGroup = waitDelay / 4, int(killDelay / (waitDelay / 4))
	parts := time.NewTicker(part)
	defer parts.Stop()
	var first error
	for left, dying, passed := len(p.reads), 0, 0; left > 0; {
		select {
		case err := <-p.copied:
			first = cmp.Or(first, err)
			left--
		case <-parts.C:
			if dying < inGroup && hasGroup() {
				dying, passed = dying+1, 0
				continue
			}
			if passed++; passed == 4 {
				return exec.ErrWaitDelay
			}
		}
	}
	return first
}

// closePipes closes the ends that are open.
func (p *piping) closePipes() {
	for i, r := range p.reads {
		_, _ = r.Close(), p.writes[i].Close()
	}
}
