package image

import (
	"errors"
	"io"
)

// A pageCache has what a walk through a file keeps of it. The zero value is empty.
type pageCache struct {
	frames  [][]byte // a page of each level: the walk comes back to those above
	window  []byte   // what was read last
	at      int64    // where in the file it is
	payload []byte   // of a record that goes on behind its cell on a leaf
	above   bool     // the record is on a page that is no leaf: those below it are read before it is used
}

// windowBytes is how much is read at a time where pages follow each other, as they do in a file that a [Stream] wrote.
const windowBytes = 64 << 10

// takePage returns a page. That of a file is good until the next one is taken.
func (w *walk) takePage(number uint32) ([]byte, error) {
	end := int64(number) * int64(w.page)
	if number == 0 || end > w.size {
		return nil, malformed("no page %d", number)
	}
	start := end - int64(w.page)
	if w.file == nil {
		return w.data[start:end], nil
	}
	c := &w.pages
	if behind := c.at + int64(len(c.window)); start < c.at || end > behind {
		n := int64(w.page)
		if start == behind {
			n = min(max(n, windowBytes), w.size-start)
		}
		if int64(cap(c.window)) < n {
			c.window = make([]byte, max(w.page, windowBytes))
		}
		c.at, c.window = start, c.window[:n]
		if err := readFull(w.file, c.window, start); err != nil {
			c.window = c.window[:0]
			return nil, err
		}
	}
	return c.window[start-c.at : end-c.at], nil
}

// treePage returns a page of a tree at some depth, which stays good while pages below it are read.
func (w *walk) treePage(number uint32, depth int) ([]byte, error) {
	page, err := w.takePage(number)
	if err != nil || w.file == nil || depth > maxDepth {
		return page, err
	}
	for len(w.pages.frames) <= depth {
		w.pages.frames = append(w.pages.frames, nil)
	}
	w.pages.frames[depth] = append(w.pages.frames[depth][:0], page...)
	return w.pages.frames[depth], nil
}

// payloadRoom returns room for so many bytes of a record. A reader of a file does not keep records.
func (w *walk) payloadRoom(n int) []byte {
	if w.file == nil || w.pages.above {
		return make([]byte, 0, n)
	}
	if cap(w.pages.payload) < n {
		w.pages.payload = make([]byte, 0, n)
	}
	return w.pages.payload
}

// readFull reads so many bytes. A file that ends before is shorter than it was said to be.
func readFull(file io.ReaderAt, b []byte, at int64) error {
	n, err := file.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}
