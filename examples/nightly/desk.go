package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/pawl-run/pawl"
)

// A desk performs the tasks. All of them may be repeated after a crash.
type desk struct {
	files, reports string       // folders
	now, most      atomic.Int64 // files that are read at once
}

func (d *desk) makeHandlers() pawl.Handlers {
	return pawl.Handlers{"list": pawl.Typed(d.listFiles), "read": pawl.Typed(d.readFile), "write": pawl.Typed(d.writeReport)}
}

// writeFiles makes the 2,000 files of a night, each with its number. The first ones
// are broken.
func (d *desk) writeFiles(broken int) error {
	for _, dir := range []string{d.files, d.reports} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	for n := 1; n <= 2000; n++ {
		text := strconv.Itoa(n)
		if n <= broken {
			text = "?"
		}
		if err := os.WriteFile(filepath.Join(d.files, fmt.Sprintf("%04d.txt", n)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// listFiles returns the names of the files.
func (d *desk) listFiles(context.Context, struct{}) ([]string, error) {
	entries, err := os.ReadDir(d.files)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// readFile returns the number in a file.
func (d *desk) readFile(_ context.Context, in struct{ File string }) (int, error) {
	now := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); now > most && !d.most.CompareAndSwap(most, now); most = d.most.Load() {
	}
	text, err := os.ReadFile(filepath.Join(d.files, filepath.Base(in.File)))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, pawl.TaskError{Code: "unreadable", Message: in.File + " has no number"}
	}
	return n, nil
}

// A night is the input of the last task.
type night struct {
	Night   string
	Numbers []int
	Broken  []struct {
		Index         int
		Code, Message string
	}
}

// writeReport makes the report, and returns it.
func (d *desk) writeReport(_ context.Context, in night) (string, error) {
	sum := 0
	for _, n := range in.Numbers {
		sum += n
	}
	report := fmt.Sprintf("%s: %d files, sum %d, %d broken", in.Night, len(in.Numbers), sum, len(in.Broken))
	return report, os.WriteFile(filepath.Join(d.reports, in.Night+".txt"), []byte(report+"\n"), 0o600)
}
