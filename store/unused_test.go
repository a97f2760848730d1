package store

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
)

// A blob that is not used is deleted although it begins as the manifest of a base does, unless a later program may have made it.
func TestUnusedBlobsThatBeginAsABase(t *testing.T) {
	part := strings.Repeat("the blob of a run, and no part of a pawl.db. ", 200)
	database := "SQLite format 3\x00" + part // whose secret cannot be read, and which may be of another directory
	filler := strings.Repeat("x", leastBase)
	for text, want := range map[string]error{
		filler: nil,
		`{"format":"pawl base 1","index":null,"note":"` + filler + `"}`:    nil,
		`{"format":"pawl base 1","index":["` + filler + `"]}`:              nil,
		`{"format":"pawl base 1","index":["%s"],"note":"` + filler + `"}`:  nil,
		`{"format":"pawl base 1","index":7,"note":"` + filler + `"}`:       nil,
		`{"format":"pawl base of mine","note":"` + filler + `"}`:           nil,
		`{"format":"pawl base 2","index":` + filler:                        nil,
		`{"format":"pawl base 1","index":["%d"],"note":"` + filler + `"}`:  ErrCorrupt,
		`{"format":"pawl base 2","index":{"a":7},"note":"` + filler + `"}`: ErrVersion,
	} {
		bases, err := blob.OpenFiles(filepath.Join(t.TempDir(), "bases"), blob.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, bases.Close()) })
		chunk, _, err := bases.Put(t.Context(), strings.NewReader(part))
		require.NoError(t, err)
		foreign, _, err := bases.Put(t.Context(), strings.NewReader(database))
		require.NoError(t, err)
		hash, _, err := bases.Put(t.Context(), strings.NewReader(strings.NewReplacer("%s", chunk, "%d", foreign).Replace(text)))
		require.NoError(t, err)
		f := follower{dir: &Dir{secret: []byte("of this directory")}, o: FollowOptions{Bases: bases}, ours: &ownedBlobs{}}
		err = f.dropUnused(t.Context(), nil, time.Now().Add(time.Hour))
		left := 0
		for range bases.All(context.Background()) {
			left++
		}
		if want == nil {
			require.NoError(t, err, text)
			require.Zero(t, left, text)
			continue
		}
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, hash)
		require.Equal(t, 3, left)
	}
}
