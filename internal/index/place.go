package index

import (
	"fmt"
	"path"

	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/workflow"
)

// A place names a sealed text and its run: a codec binds it to the bytes, which can
// therefore not be moved elsewhere. So places are part of the format.

// MarkPlace is the place of a directory's mark.
const MarkPlace = "directory"

// RunPlace returns the place of a column in the row of a run.
func RunPlace(column string, id workflow.RunID) string { return column + " of " + string(id) }

// StatePlaces are the columns with values that some commits change.
var StatePlaces = [3]string{"output", "failure", "artifacts"}

// InputHashPlace is the column that tells a repeated start from another one.
const InputHashPlace = "input_hash"

// RecordPlace returns the place of a record of a run.
func RecordPlace(id workflow.RunID, seq int64) string {
	return fmt.Sprintf("record %d of %s", seq, id)
}

// ListPlace returns the place of the row of a token in the lists of all runs.
func ListPlace(id workflow.RunID, token workflow.TokenID) string {
	return fmt.Sprintf("list %d of %s", int64(token), id)
}

// FilePlace returns the place of a file, which may be moved to another folder.
func FilePlace(name string) string { return "file " + path.Base(name) }

// DefinitionPlace returns the place of a definition.
func DefinitionPlace(hash string) string { return "definition " + hash }

// OutcomePlace returns the place of an outcome that is kept under a key.
func OutcomePlace(key string) string { return "outcome " + key }

// OpenTexts opens what is sealed of a row that was read, but for the parts that are
// damaged. It fails with a *seal.Error.
func (r *Row) OpenTexts(s seal.Sealer) error {
	open := func(place string, text *string) error {
		if !seal.IsSealed(*text) {
			return nil
		}
		plain, err := s.OpenText(RunPlace(place, r.Run), *text)
		*text = plain
		return err
	}
	if r.Sound[RowStart] {
		if err := open(InputHashPlace, &r.InputHash); err != nil {
			return err
		}
	}
	for i, place := range StatePlaces {
		if !r.Sound[RowState] {
			break
		}
		if err := open(place, &r.texts[i]); err != nil {
			return err
		}
	}
	return nil
}
