package blob

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"testing"
)

const benchSize = 1 << 20

// BenchmarkPut puts 1 MiB that is new each time: a file, three syncs.
func BenchmarkPut(b *testing.B) {
	f := open(b, b.TempDir())
	content := pattern(benchSize, 0)
	b.SetBytes(benchSize)
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		binary.LittleEndian.PutUint64(content, n)
		putBench(b, f, content)
	}
}

// BenchmarkPutAgain puts the same 1 MiB again and again: it is read, not written.
func BenchmarkPutAgain(b *testing.B) {
	f := open(b, b.TempDir())
	content := pattern(benchSize, 0)
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		putBench(b, f, content)
	}
}

func putBench(b *testing.B, f *Files, content []byte) {
	if _, _, err := f.Put(context.Background(), bytes.NewReader(content)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOpen reads 1 MiB to its end, which checks it.
func BenchmarkOpen(b *testing.B) {
	f := open(b, b.TempDir())
	hash := put(b, f, pattern(benchSize, 0))
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		r, err := f.Open(context.Background(), hash)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			b.Fatal(err)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
